"""The operations of the service. Each is one pure decision, one transaction, and effects after the commit.

Begin with ``commands``, which queues device requests and stores their outcomes. ``devices`` stores the events of
devices and reads the mirror. ``subscriptions`` and ``keys`` belong to applications. ``housekeeping`` runs scheduled
work, and ``slow_reads`` limits slow reads. The package imports ``store``, ``notifications``, ``devices`` and their
imports, but not Flask.
"""
