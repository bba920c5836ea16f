"""The version of Smelt, written once: the release that comes next. A tag makes it one (setup.py)."""

__version__ = "0.2.0.dev0"
