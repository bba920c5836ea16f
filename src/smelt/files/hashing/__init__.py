"""SHA-256 of files: in the background, remembered, or while they are written."""
