"""Requests to devices: the interface of all kinds of device connections, and the queue of each device.

The connections themselves are extensions. Without such an extension, the server can reach no device. The package
imports ``store`` and its imports, but not ``service``, which passes the dispatcher a function that stores responses.
Begin with ``interface``.
"""
