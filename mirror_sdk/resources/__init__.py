"""The groups of a client's methods: ``client.devices``, ``client.requests`` and others, each made on first use.

These are resources of the service's interface, as in other HTTP clients. The resources of a device, such as
``/3303/0/5700``, are in :mod:`mirror_sdk.resource`.
"""
