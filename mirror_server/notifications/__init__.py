"""The notification log, and how an application reads it: long polling and webhooks."""

# This package imports ``config``, the store and its imports, but neither the service nor Flask. To read it, begin with
# ``waiters`` (thousands of waiters), then ``log``, ``channels`` and ``webhooks``.
