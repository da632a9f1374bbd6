"""The words by which the process on duty hears what another one stored."""

WAITING = "waiting"
"""Something waits for a device."""

AGAIN = "again"
"""A device is to be asked what waits for it, also what it left unanswered before."""

EXPIRY = "expiry"
"""A command expires at an instant."""
