"""The history: what happened, the state at an earlier instant, and what changed between two.

>>> client.subscribe(station, "/3303/0/5700")
>>> begin, end = simulator.get_clock(), simulator.advance(60)
>>> simulator.set_value(station, "/3303/0/5700", 22.5)
>>> client.history([station], ["/3303/*"])["value_num"].dropna().tolist()
[21.5, 22.5]
>>> client.as_of(begin + timedelta(seconds=30), paths=["/3303/0/5700"])["reported_num"].tolist()
[21.5]
>>> client.changes(begin, end)[["before_num", "after_num"]].values.tolist()
[[21.5, 22.5]]

- ``client.history()`` returns one row per event, by device, path and the time at which it happened. Events are reported
  values, completed writes, registrations, and the intervals in which nothing could be received. A late event is listed
  at the time at which it happened.
- ``client.as_of(instant)`` returns the state table of the fleet at an earlier instant.
- ``client.changes(begin, end)`` returns the changes between two instants.

Instants may be an age, such as ``begin="2h"``, by the clock of the service. In a shell: ``mirror history light-01
--since 2h``.

Durations and other analysis
----------------------------

The table answers questions such as how long a door was open, or which devices were silent (``mirror help tables``). A
history that starts at ``begin`` does not contain the values that were current at that moment. Until the first new value
arrives they are unknown; pass ``state=client.as_of(begin)`` to supply them.

>>> later = begin + timedelta(seconds=15)
>>> history, state = client.history([station], begin=later), client.as_of(later, [station])
>>> history.mirror.durations("/3303/0/5700", above=21, state=state)["duration"].dt.total_seconds().tolist()
[45.0]
>>> client.get_device(station).history("/3303/0/5700")["value_num"].dropna().tolist()  # of one resource
[21.5, 22.5]

Availability
------------

The operator decides whether the service keeps a history, how long and where: ``mirror-server run --keep-history 30d``.
``mirror-server demo`` and ``mirror lab`` keep seven days. Without a history, these methods raise
:class:`~mirror_sdk.NoHistory`. An instant before the oldest data raises :class:`~mirror_sdk.BeforeHistory`, whose
``oldest_at`` is the oldest available instant.

A :class:`~mirror_sdk.recording.Recording` has the same three methods with the same columns. It contains only what
notifications report. It lacks values that other applications read, values without a subscription, completed writes, and
the revision of each change. If the recording application itself read a value, ``changed_at`` is the time of the
response. ``received_at`` is the clock of the recording client.

A history arrives as a stream. If the stream is interrupted, it resumes after the last row, with the data as of its
start, so that no row is duplicated or missing. Memory holds the table and a part of the stream. Terminals and notebooks
show progress; ``show_progress(False)`` turns that off. For a history larger than memory, use
:func:`mirror_sdk.dask.read_history`.
"""

import mirror_sdk.tables  # noqa: F401 - first, as it says what to install where pandas is missing
