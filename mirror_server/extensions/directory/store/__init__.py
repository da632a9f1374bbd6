"""The SQL of the directory."""
