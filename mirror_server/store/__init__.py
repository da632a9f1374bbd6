"""The database: its schema, every SQL statement, and the one writer.

Statements are written once, with ``:name`` parameters and in the SQL that SQLite and PostgreSQL share
(``INSERT ... ON CONFLICT``, ``RETURNING``), so that a session over another driver needs no second copy of the logic.
"""
