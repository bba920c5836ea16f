"""How a database of an older Smelt becomes one of this Smelt: alembic's revisions, shipped with the package."""
