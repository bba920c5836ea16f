"""safetensors files: their header."""
