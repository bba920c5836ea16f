# what is it?
smelt inspect cars-fp8

# a quantised model merges like any other
smelt merge -m linear --model cars-fp8 --model birds -o merged

# the same model in full precision
smelt convert cars-fp8 -o cars-again
