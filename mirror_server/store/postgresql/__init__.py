"""PostgreSQL: any number of processes serve one database, and elect a leader. Needs psycopg, an extra."""
