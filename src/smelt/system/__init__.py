"""The machine that Smelt runs on: cores, threads, memory, garbage collection, and progress on its terminal."""
