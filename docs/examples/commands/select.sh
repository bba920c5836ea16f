# which of the models to merge, by how uncertain the merges are
smelt select uq data/select.yaml -o chosen

# the same answers, another way to choose: nothing is asked again
smelt select uq data/select.yaml --choose first_local_min --store chosen/logits -o first

# by accuracy on validation data
smelt select soup data/select.yaml -o soup

# what was chosen is an ordinary recipe
smelt merge chosen/chosen.yaml -o merged
