smelt info
smelt info --json
