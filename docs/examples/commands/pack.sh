# 4-bit codes; or two thin matrices per tensor
smelt pack cars --base base -o cars-packed
smelt pack birds --base base --rank 4 -o birds-packed

# a pack is a model wherever one is asked for
smelt merge -m ties --base base --model cars-packed --model birds-packed -o merged

# and becomes an ordinary folder again
smelt unpack cars-packed -o cars-again
