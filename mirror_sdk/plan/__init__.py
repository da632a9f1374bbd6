"""Plans: many writes that are checked before anything is sent, sent carefully, and can be undone.

>>> plan = client.plan([("light-01", "/3311/0/5851", 40), ("light-01", "/3311/0/5850", "on")], read_first=True)
>>> plan.frame[["path", "decision", "undoable"]].to_dict("records")
[{'path': '/3311/0/5851', 'decision': 'write', 'undoable': True},
 {'path': '/3311/0/5850', 'decision': 'refuse', 'undoable': None}]
>>> plan.apply()[["path", "status"]].to_dict("records")
[{'path': '/3311/0/5851', 'status': 'success'}]
>>> plan.undo().apply()["status"].tolist()
['success']

- ``client.plan(table)`` checks the writes: type, range, writable, value already set, device offline, write pending. It
  writes nothing. ``plan.frame`` lists the result for each write.
- ``read_first=True`` reads values that the mirror does not have yet, so that these writes can be undone. The column
  ``undoable`` shows which cannot.
- ``plan.apply(canary=1, max_failures=5)`` sends the writes and returns a table of their results. You can stop it and
  call it again.
- ``plan.undo()`` returns a plan that restores the former values.
- ``plan.save(file)`` and ``client.plans.load(file)`` move a plan to another process.

Undo
----

An undo leaves alone what was changed after the plan wrote it. Such a row is rejected with ``check`` ``changed``, and
the others are undone. A resource counts as changed in two cases:

- The last value written to it, by any client, is a different one.
- The device later reported a value that is neither the written value nor the previous one.

It does not count as changed if the value of the plan was written again successfully, or is being written. So undo
several plans in reverse order, and apply each undo before the next. A saved plan also stores the previous values.

>>> plan = client.plan([("light-01", "/3311/0/5851", 50)])
>>> _ = plan.apply()
>>> client.write_value("light-01", "/3311/0/5851", 77)
>>> plan.undo().frame[["current_num", "check"]].to_dict("records")
[{'current_num': 77.0, 'check': 'changed'}]

From a query to a plan
----------------------

Any table with devices and paths can be planned. ``if_match=True`` writes only where no other write has been made since
the table was read:

>>> dim = client.fleet.snapshot().query("path == '/3311/0/5851' and reported_num < 20")
>>> client.plan(dim, value=40, if_match=True).frame["check"].tolist()
['ok']

Devices that sleep
------------------

A device in queue mode sleeps between its contacts, and receives a write at its next contact. So ``apply()`` does not
wait for it: the write stays ``pending``. Call ``apply()`` again, even days later, to get its result.

The column ``expiry_seconds`` shows how long each write waits for its device: a minute if the device is awake, and three
days or more if it sleeps. ``apply(expiry_seconds=...)`` sets another time for all of them.

The canary is the first write: the others are sent only after it has succeeded. Sleeping devices are written last and
are never the canary. If every device of a plan sleeps, pass ``canary=0`` to send all writes at once.

Needs pandas and pyarrow, the ``frames`` extra.
"""

import mirror_sdk.frames  # noqa: F401 - first, as it says what to install where pandas is missing
from mirror_sdk.plan.async_plan import AsyncPlan
from mirror_sdk.plan.checks import Check, Decision
from mirror_sdk.plan.plan import Plan
from mirror_sdk.plan.table import PLAN_SCHEMA

__all__ = ["PLAN_SCHEMA", "AsyncPlan", "Check", "Decision", "Plan"]
