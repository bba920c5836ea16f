# what is it, and for which family?
smelt inspect style.safetensors

# an SDXL LoRA becomes part of the model, with a strength of 0.8
smelt merge -m task_arithmetic --set scale=0.8 --base sdxl-base \
    --model sdxl-base+style.safetensors -o sdxl-styled

# a Flux LoRA, over the single file that ComfyUI uses
smelt merge -m task_arithmetic --set scale=1 --base flux-base.safetensors \
    --model flux-base.safetensors+flux-style.safetensors -o flux-styled
