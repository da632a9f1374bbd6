"""The notification log, and the channels by which an application reads it: long polls and webhooks."""

# This package imports ``config``, the store and its imports, but neither the service nor Flask. Read ``waiters``
# first, which wakes thousands of waiters, then ``log``, ``channels`` and ``webhooks``.
