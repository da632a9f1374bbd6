"""The SQL statements of the directory."""
