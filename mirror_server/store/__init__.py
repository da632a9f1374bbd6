"""The database: its schema, every SQL statement of the core, and the single writer.

Read ``session`` first, which contains a connection and its statements. Then read ``writer``, which commits work in
groups, and ``database``, which opens and reads a database. ``devices``, ``resources``, ``subscriptions``,
``commands``, ``logs`` and ``keys`` contain the statements for their tables, in the SQL that all supported databases
share. ``backend`` is the interface of a kind of database, and ``sqlite`` implements it. ``schema`` and ``migrations``
create the tables. The package imports only ``core`` and wire models.
"""
