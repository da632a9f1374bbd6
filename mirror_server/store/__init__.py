"""The database: its schema, every SQL statement, and the one writer.

``database`` opens one, of a kind that ``sqlite`` or ``postgresql`` knows; ``writer`` is the thread that writes, and
``migrate`` brings the schema up to date. The other modules hold the statements about what they are named after. These
are written once, with ``:name`` parameters and in the SQL that SQLite and PostgreSQL share
(``INSERT ... ON CONFLICT``, ``RETURNING``), so that a session over another driver needs no second copy of the logic.
"""
