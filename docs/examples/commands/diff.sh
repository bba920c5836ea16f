smelt diff base cars

# some tensors, and the heat map over depth as a picture
smelt diff base cars --keys '*.mlp.*' -o depth.svg

# an adapter over its base; exit code 1 if they differ by more than this
smelt diff base base+cars-lora --tolerance 10 --exit-code --quiet
