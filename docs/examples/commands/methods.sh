smelt methods
smelt methods ties
smelt methods dare_ties
smelt methods ties --json
