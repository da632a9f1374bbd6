"""Pure decisions: no clock, no I/O, no threads.

The package imports nothing else of the server. Begin with ``desired`` (the status of a desired value) and ``commands``
(expiry, retries and failures). ``messages`` has the JSON of notifications, ``rules`` an index of presubscription rules,
``errors`` the errors of requests, and ``timestamps`` the type of times.
"""
