"""The database: its schema, every SQL statement of the core, and the single writer.

Begin with ``session`` (a connection and its statements), ``writer`` (group commit) and ``database`` (open and read).
``devices``, ``resources``, ``subscriptions``, ``commands``, ``logs`` and ``keys`` contain the statements for their
tables, in the SQL that all supported databases share. ``backend`` is the interface of a kind of database, and
``sqlite`` implements it. ``schema`` and ``migrations`` create the tables. The package imports only ``core`` and wire
models.
"""
