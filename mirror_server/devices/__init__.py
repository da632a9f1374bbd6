"""How devices are asked: the interface that every kind of device connection has, and the queue of each device.

The connections themselves are extensions; without one no device can be reached. It imports ``store`` and what is below
it, and not ``service``, which tells the dispatcher how to store what a device answered. Begin with ``link``.
"""
