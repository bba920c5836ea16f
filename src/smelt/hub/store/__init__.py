"""Where a hub lives: a database (SQLite, or Postgres by URL), and beside it a folder with files, labels and graphs.

The database is the truth. A file that no row speaks of is left over from a process that was killed, and is swept away
by whoever opens the hub next; a row is written last, when all that it speaks of is on disk. Only this room knows
SQLAlchemy.
"""
