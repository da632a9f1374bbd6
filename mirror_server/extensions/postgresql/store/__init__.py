"""The PostgreSQL database: its connections, the lock of the leader, and the calls between processes."""
