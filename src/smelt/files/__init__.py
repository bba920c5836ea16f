"""What all rooms do with files, each once: who a file is, and bounded readers. The lowest room; it knows no other."""
