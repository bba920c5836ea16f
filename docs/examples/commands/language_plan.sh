# five public specialists of 8 billion parameters each, none of them on this machine
smelt plan -m ties --pool MergeBench/Llama-3.1-8B

# what looking at data would take on a GPU
smelt plan -m fisher --pool MergeBench/Llama-3.1-8B --device cuda

# any model of a known size
smelt plan -m ties --base shape:gemma-2-2b --model a=shape:gemma-2-2b --model b=shape:gemma-2-2b
