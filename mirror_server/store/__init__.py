"""The database: its schema, every SQL statement, and the one writer.

``database`` opens one, of the kind that its URL names; ``writer`` is the thread that writes, ``schema`` brings it up to
date. The other modules hold the statements about what they are named after. These are written once, with ``:name``
parameters and in the SQL that databases share (``INSERT ... ON CONFLICT``, ``RETURNING``), so that a session over
another driver needs no second copy of the logic, but where it does in one statement what takes several here.

It imports ``core`` and ``clock``. Begin with ``session``, what work in a transaction can do, then ``resources``.
"""
