"""SQLite: one process serves a file."""
