"""The kinds of signals that a transaction publishes; see :meth:`mirror_server.store.session.Session.publish`."""

LOG = "log"
"""The log of an application has a new entry, or ended."""

WAITING = "waiting"
"""Something waits for a device."""

AGAIN = "again"
"""A device is to be asked what waits for it, also what it left unanswered before."""

APPLY = "apply"
"""Presubscription rules are to be applied to the registered devices."""

EXPIRY = "expiry"
"""A command expires at an instant."""
