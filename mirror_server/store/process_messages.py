"""The kinds of signals by which processes on one database forward requests to the leader."""

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
