smelt plan first.yaml
smelt merge first.yaml -o merged
smelt verify merged
