# BASE, IN00 to IN11, M00, OUT00 to OUT11: the later the block, the more of drawings
smelt merge -m task_arithmetic --base portraits.safetensors \
    --model drawings.safetensors -o blocks.safetensors \
    --set 'scale={blocks: "0, 0,0,0,0,0,0,0,0,0,0,0,0, 0.5, 0.5,0.5,0.6,0.6,0.7,0.7,0.8,0.8,0.9,0.9,1,1"}'
