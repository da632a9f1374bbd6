"""The kinds of signals that a transaction publishes; see :meth:`mirror_server.store.session.Session.publish`."""

LOG = "log"
"""The log of an application has a new entry, or ended."""

WAITING = "waiting"
"""Something waits for a device."""

UNTOLD = "untold"
"""A request for a device is stored, and its async-id not told yet: the device, a space, the async-id."""

TOLD = "told"
"""The async-id of a request was told."""

AGAIN = "again"
"""A device is to be asked what waits for it, also what it left unanswered before."""

EXPIRY = "expiry"
"""A command expires at an instant."""
