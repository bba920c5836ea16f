"""The models of a hub: taken in, checked, listed."""
