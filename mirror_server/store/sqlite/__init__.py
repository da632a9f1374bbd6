"""SQLite: one process serves a file. It imports the store's ``backend`` and what that needs; begin with ``backend``."""
