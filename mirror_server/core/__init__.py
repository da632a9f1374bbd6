"""Pure decisions: the desired status, the life of a command, messages, rules, refusals.

Nothing here knows a clock, a thread, a file or the database: each is a function of what it is given. It imports nothing
else of the server, and of the SDK the wire models. Begin with ``desired``: what becomes of a desired value.
"""
