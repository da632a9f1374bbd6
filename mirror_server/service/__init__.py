"""The operations of the service, each one pure decision, one transaction, and effects when that is on disk.

Begin with ``commands``: device requests are queued there and their ends stored. ``devices`` stores what devices do, and
reads the mirror; ``subscriptions`` and ``keys`` are those of applications. ``housekeeping`` does what becomes due, and
``long_reads`` bounds what takes long. It imports ``store``, ``notifications``, ``devices`` and what they import,
but not Flask.
"""
