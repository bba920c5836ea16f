# a quantised GGUF file, and back as an ordinary folder in bfloat16
smelt export talk -o talk.gguf --type q8_0
smelt convert talk.gguf -o talk-again

# a delta pack, an adapter over its base, old pickles: whatever a reference names
smelt convert base+cars-lora -o cars-whole --dtype float32
smelt convert old -o new --allow-pickle

# the weights alone, in one file
smelt convert birds -o birds.safetensors --dtype float16

# every byte is what the manifest says
smelt verify talk-again
