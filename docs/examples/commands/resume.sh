# the first run was killed: continue it
smelt merge first.yaml -o merged --resume

# make it again and replace it
smelt merge first.yaml -o merged --force
