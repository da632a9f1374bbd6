"""The words by which the process on duty hears what another one stored."""

WAITING = "waiting"
"""Something waits for a device."""

EXPIRY = "expiry"
"""A command expires at an instant."""
