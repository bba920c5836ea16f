"""What every room does with files, each once: who a file is, and bounded readers. It imports no other room."""
