"""The database: its connections, the lock of the leader, what processes ask of each other."""
