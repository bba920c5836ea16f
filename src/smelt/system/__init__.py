"""This machine: cores, threads, memory, garbage collection, and progress on its terminal."""
