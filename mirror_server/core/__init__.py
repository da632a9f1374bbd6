"""The decisions of the core, which need no clock, no I/O and no threads.

The package imports nothing else of the server. Read ``desired`` first, which contains the status of a desired value,
and then ``commands``, with expiry, retries and failures. ``messages`` contains the JSON of notifications, ``rules`` an
index of presubscription rules, ``errors`` the errors of requests, and ``timestamps`` the type of timestamps.
"""
