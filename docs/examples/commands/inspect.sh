smelt inspect cars
smelt inspect base+cars-lora

# without torch, and without running anything in it
smelt inspect old/pytorch_model.bin --json

# the tensors whose names match
smelt inspect cars --keys '*.mlp.*'
