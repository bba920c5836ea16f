"""The version of Smelt, written once."""

__version__ = "0.1.0"
