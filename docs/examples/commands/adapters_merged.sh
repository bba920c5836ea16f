# two LoRAs, with strengths of 0.7 and 0.5, become one file as kohya's tools write it
smelt merge -m task_arithmetic --set scale=1 \
    --set 'weights={style: 0.7, face: 0.5}' --base sdxl-base \
    --model style=sdxl-base+style.safetensors \
    --model face=sdxl-base+face.safetensors --lora 6 -o both

# the same for diffusers
smelt merge -m task_arithmetic --set scale=1 --base sdxl-base \
    --model style=sdxl-base+style.safetensors \
    --model face=sdxl-base+face.safetensors --lora 6 --lora-format diffusers \
    -o both-diffusers

# the whole change of a fine-tune as a LoRA of rank 8
smelt merge -m task_arithmetic --set scale=1 --base small --model small-maths \
    --lora 8 -o maths-as-lora
