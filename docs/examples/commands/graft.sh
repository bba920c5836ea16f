# which parts a model has
smelt inspect seer

# half of what a model of texts has learned goes into its language model
smelt merge graft.yaml -o seer-reads

# the language model alone, as a folder of its own
smelt unpack 'seer-reads#language' -o reader-again
