"""Requests to devices: the interface of all kinds of device connections, and the delivery of pending commands.

The connections themselves are extensions. Without such an extension, no device can be reached. The package imports
``store`` and its imports, but not ``service``. The service passes a function that stores responses to the dispatcher.
Read ``interface`` first.
"""
