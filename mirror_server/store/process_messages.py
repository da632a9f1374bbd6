"""What the processes on one database tell each other: a kind, and behind a space what it is about."""

LOG = "log"
"""The log of an application has a new entry, or ended."""

SOCKET = "socket"
"""The websocket channel of an application was changed or ended, or another connection of it opened."""

WAITING = "waiting"
"""Something waits for a device."""

UNTOLD = "untold"
"""A request for a device is stored, and its async-id not told yet: the device, a space, the async-id."""

TOLD = "told"
"""The async-id of a request was told."""

AGAIN = "again"
"""A device is to be asked what waits for it, also what it left unanswered before."""

APPLY = "apply"
"""Presubscription rules are to be applied to the registered devices."""

EXPIRY = "expiry"
"""A command expires at an instant."""

CALL = "ask"
"""A call is there for the leader."""

GONE = "gone"
"""Nobody waits for the answer to a call any more."""

ANSWER = "answer"
"""A call is answered."""

LEADER = "duty"
"""Another process leads from now on."""

RESUMED = "resumed"
"""The leader missed messages, and goes on: what it was asked meanwhile is to be asked again."""
