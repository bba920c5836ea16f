smelt hub init --hub my-hub --quiet
smelt hub token new ada --hub my-hub
smelt hub token ls --hub my-hub
smelt hub token revoke ada --hub my-hub
