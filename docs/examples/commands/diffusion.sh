# folders of diffusers: the output is a folder that from_pretrained loads
smelt merge -m average --model portraits --model drawings -o both

# single files: one file comes out, in the layout that they came in
smelt inspect portraits.safetensors
smelt merge -m average --model portraits.safetensors --model drawings.safetensors \
    -o both.safetensors
