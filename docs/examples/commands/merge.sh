# a recipe; --set changes a word of it
smelt merge first.yaml -o one --set dtype=float32 --set 'skip=["lm_head.*", "model.norm.*"]'

# models by flags, with names of their own; --set gives parameters of the method and words of the recipe
smelt merge -m ties --base base --model c=cars --model b=dir:birds \
    --set density=0.2 --set 'weights={c: 1, b: 2}' --set vocab=refuse -o two

# limits and speed do not change a byte of the result
smelt merge first.yaml -o three --threads 1 --memory 200MB --quiet

# several stages with commas; a parameter of one of them has its name in front
smelt merge -m dare,ties --base base --model cars --model birds --set dare.density=0.5 -o four
