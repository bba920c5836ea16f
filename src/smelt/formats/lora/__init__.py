"""LoRA adapters over their base."""
