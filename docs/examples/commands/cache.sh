smelt cache
smelt cache --older-than 30d --json
smelt cache clean --older-than 30d --yes
smelt cache clean --kind statistics --kind learned --dry-run
