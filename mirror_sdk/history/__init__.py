"""What happened: the history that the service keeps, as a table; the state as of an instant; what changed between two.

``client.history()`` gives a row for each thing that happened, by device, path and the time at which it did: each value
that a device told, the end of each write, registrations and the intervals in which nothing could be heard. What came
late stands at its own time. ``client.as_of(instant)`` is the state table of the fleet at an instant of the past,
``client.changes(begin, end)`` what changed between two. An instant may also be how long ago it was (``begin="2h"``), by
the service's clock.

>>> client.subscribe(station, "/3303/0/5700")
>>> begin, end = simulator.get_clock(), simulator.advance(60)
>>> simulator.set_value(station, "/3303/0/5700", 22.5)
>>> client.history([station], ["/3303/*"])["value_num"].dropna().tolist()
[21.5, 22.5]
>>> client.as_of(begin + timedelta(seconds=30), paths=["/3303/0/5700"])["reported_num"].tolist()
[21.5]
>>> client.changes(begin, end)[["before_num", "after_num"]].values.tolist()
[[21.5, 22.5]]

How long something was open, which devices were silent and the like is asked of the table (``mirror help tables``). One
from ``begin`` on does not tell what held by then: that is not ``known`` until it is told, unless ``state=`` tells it.

>>> later = begin + timedelta(seconds=15)
>>> history, state = client.history([station], begin=later), client.as_of(later, [station])
>>> history.mirror.durations("/3303/0/5700", above=21, state=state)["duration"].dt.total_seconds().tolist()
[45.0]
>>> client.get_device(station).history("/3303/0/5700")["value_num"].dropna().tolist()  # of one resource
[21.5, 22.5]

An operator decides whether there is a history, for how long, and where: ``mirror-server run --keep-history 30d``;
``mirror-server demo`` and ``mirror lab`` keep seven days. Where there is none that is :class:`~mirror_sdk.NoHistory`,
and an instant before what is kept is :class:`~mirror_sdk.BeforeHistory`, whose ``oldest_at`` is the oldest there is.

A :class:`~mirror_sdk.recording.Recording` has the same three methods, with the same columns. What no notification tells
is not in it: values that others read, values that nobody subscribed, ends of writes, and the number of the mirror's
change. What its application read stands at the time of the answer there, and ``received_at`` is of the clock of the
client that recorded.

A history comes as a stream. Where it is cut it goes on behind the last row that came, with what was known when it
began, so that no row is there twice and none is missing. Memory holds the table and a piece of the stream. Progress is
shown in a terminal and in a notebook (``show_progress(False)`` ends that). For more than fits into memory there is
:func:`mirror_sdk.dask.read_history`.
"""

import mirror_sdk.tables  # noqa: F401 - first, as it says what to install where pandas is missing
