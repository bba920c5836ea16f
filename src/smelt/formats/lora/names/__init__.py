"""The modules of a base by every name that adapters have for them."""
