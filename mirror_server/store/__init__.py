"""The database: its schema, every SQL statement of the core, and the one writer.

Begin with ``session`` (what a statement can do), ``writer`` (group commit) and ``database`` (opening and reading).
``devices``, ``resources``, ``subscriptions``, ``commands``, ``logs`` and ``keys`` hold the statements about what they
are named after, written once in the SQL that databases share. ``backend`` is what a kind of database offers, ``sqlite``
is one; ``schema`` and ``migrations`` make the tables. It may import ``core`` and wire models alone.
"""
