"""Cassettes: recorded sessions that replay without a server and without a key.

The same program, notebook or test produces the same tables and values everywhere::

    with client.cassettes.use("run.zip"):
        frame = client.fleet.snapshot()

The first run sends requests to the service and records the responses. Later runs replay the file and send nothing.

A client can consist of a cassette alone, without an address and a key. So you can ship a notebook with its cassette and
run it anywhere, on Binder too::

    with MirrorClient.from_cassette("run.zip") as client:
        frame = client.fleet.snapshot()

Modes
-----

``mode="record"`` records again. ``mode="replay"`` never contacts the service. ``mode="none"`` ignores the cassette.

How requests are matched
------------------------

A request matches a recorded request with the same content. Repeated requests get their responses in the order of the
recording. Read-only requests may be sent more often than they were recorded. Replayed polls and
waits take effect in the recorded order. Tables contain the recorded times.

A request without a match raises :class:`~mirror_sdk.NotRecorded` with the request. Most often it depends on the time of
day or on a random number. Use ``cassette.started_at`` in place of the current time.

Contents and limits
-------------------

The file contains no access keys and no headers or bodies of requests. It contains the responses of the service: names,
ids and values, including written values that a response shows. :mod:`mirror_sdk.privacy` describes which of them can be
personal.

A recording that is killed or ends with an error leaves the previous file unchanged. Notifications by webhook bypass a
cassette, so webhooks are rejected while one is in use. A cassette belongs to one client and its key.

For tests there is a marker of the pytest plugin; see :mod:`mirror_sdk.testing`.
"""

from mirror_sdk.cassette.async_cassette import AsyncCassette
from mirror_sdk.cassette.cassette import Cassette
from mirror_sdk.cassette.modes import Mode, address_of, is_played

__all__ = ["AsyncCassette", "Cassette", "Mode", "address_of", "is_played"]
