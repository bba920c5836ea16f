"""What every room does with files, each once: who a file is, and bounded readers. The lowest room; it knows no other."""
