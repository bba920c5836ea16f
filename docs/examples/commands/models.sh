# the zoo
smelt models

# whether the models of a pool fit each other
smelt models pool.yaml
smelt models --base base --model cars --model birds --json
