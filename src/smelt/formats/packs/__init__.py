"""Delta packs: a fine-tune stored as a small change of its base."""
