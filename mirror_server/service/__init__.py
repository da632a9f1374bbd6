"""The operations of the service, each one pure decision, one transaction, and effects when that is on disk.

Beside them stand what happens because time passes (``housekeeping``), what bounds them (``slots``) and what saves them
work (``lru_cache``). It imports ``store``, ``notifications``, ``devices`` and what they import, but not Flask. Begin
with ``commands``: how a device request is placed, and how it ends.
"""
