smelt merge first.yaml -o merged --quiet
smelt verify merged
smelt verify merged --json
