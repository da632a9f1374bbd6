"""The SQL of the history."""
