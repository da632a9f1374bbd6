"""Plans: many writes that are looked at before anything is sent, sent carefully, and can be undone.

``client.plan(table)`` checks the writes (type, range, writable, already so, offline, pending) and writes nothing;
``plan.frame`` tells of each what was found. ``read_first=True`` reads what the mirror does not know, so that it can be
undone; the column ``undoable`` tells what cannot.

>>> plan = client.plan([("light-01", "/3311/0/5851", 40), ("light-01", "/3311/0/5850", "on")], read_first=True)
>>> plan.frame[["path", "decision", "undoable"]].to_dict("records")
[{'path': '/3311/0/5851', 'decision': 'write', 'undoable': True},
 {'path': '/3311/0/5850', 'decision': 'refuse', 'undoable': None}]

``plan.apply(canary=1, max_failures=5)`` sends them, can be stopped and called again, and gives the ledger.
``plan.undo()`` plans the way back, ``plan.save(file)`` and ``client.plans.load(file)`` take a plan to another process.

>>> plan.apply()[["path", "status"]].to_dict("records")
[{'path': '/3311/0/5851', 'status': 'success'}]
>>> plan.undo().apply()["status"].tolist()
['success']

An undo leaves alone what was changed after the plan wrote it: such a row is refused with ``check`` ``changed``, and the
others are undone. Values are compared: a resource is changed if the value written to it last is another one, by
whichever client, or if the device later reported one that is neither the one written nor the one before. It is not
changed if the plan's value was written again with success, or is being written. So several plans are undone in reverse
order, each after the undo of the next has been applied. A plan that was saved knows this too.

>>> plan = client.plan([("light-01", "/3311/0/5851", 50)])
>>> _ = plan.apply()
>>> client.write_value("light-01", "/3311/0/5851", 77)
>>> plan.undo().frame[["current_num", "check"]].to_dict("records")
[{'current_num': 77.0, 'check': 'changed'}]

The answer to a question is what is written next, and with ``if_match=True`` only where nobody wrote meanwhile:

>>> dim = client.fleet.snapshot().query("path == '/3311/0/5851' and reported_num < 20")
>>> client.plan(dim, value=40, if_match=True).frame["check"].tolist()
['ok']

Devices that sleep are written to last and are no canary (of several writes none of which is for a device that is awake,
``canary=0`` sends them all). They take it at their next contact, for which a write waits 3 days or more (the column
``expiry_seconds``) and ``apply()`` does not: such a write is ``pending``, and ``apply()`` again, days later too, tells
what became of it.

Needs pandas and pyarrow, the ``frames`` extra.
"""

import mirror_sdk.frames  # noqa: F401 - first, as it says what to install where pandas is missing
from mirror_sdk.plan.async_plan import AsyncPlan
from mirror_sdk.plan.checks import Check, Decision
from mirror_sdk.plan.plan import Plan
from mirror_sdk.plan.table import PLAN_SCHEMA

__all__ = ["PLAN_SCHEMA", "AsyncPlan", "Check", "Decision", "Plan"]
