"""The SQL statements of the history."""
