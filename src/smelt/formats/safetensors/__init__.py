"""safetensors: the header of a file, and a file or a folder of them as a model."""
