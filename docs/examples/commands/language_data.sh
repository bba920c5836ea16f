smelt plan data/language.yaml
smelt merge data/language.yaml -o merged
