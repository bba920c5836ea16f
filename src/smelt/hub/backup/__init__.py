"""Backups of a hub: rows as lines of JSON, and files. Taken while services run, restored into SQLite or Postgres."""
