smelt hub init --hub my-hub --quiet
smelt hub backup hub-backup --hub my-hub
smelt hub backup hub-backup --hub my-hub --force   # again: only what is new is copied
smelt hub restore hub-backup restored
smelt hub job ls --hub restored
