"""What every room does with files, each once: reading, writing, identity and hashes, notes, strict schemas."""
