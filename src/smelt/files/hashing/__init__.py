"""BLAKE3 of files: of whole ones, and of those whose bytes come in pieces while they are merged and written."""
