# adapters in, merged in the space that they share, and an adapter out
smelt merge adapter.yaml -o joined

# the same as a whole model
smelt merge -m ties --base base --model cars=base+cars-lora --model birds=base+birds-lora -o whole
