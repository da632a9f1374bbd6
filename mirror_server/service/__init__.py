"""The operations of the server: device requests, device events, subscriptions, keys and scheduled work.

Each operation makes one decision without side effects, stores it in one transaction, and causes its effects after the
commit. Read ``commands`` first, which queues device requests and stores their outcomes. ``devices`` stores device
events and reads the mirror. ``subscriptions`` and ``keys`` manage the data of applications. ``housekeeping`` runs
scheduled work, and ``slow_reads`` limits slow reads. The package imports ``store``, ``notifications``, ``devices`` and
their imports, but not Flask.
"""
