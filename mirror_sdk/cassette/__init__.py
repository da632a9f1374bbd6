"""Cassettes: what a service said, in a file that answers in its place later, without a server and without a key.

The same program, notebook or test gives the same tables and values wherever it runs::

    with client.cassettes.use("run.zip"):
        frame = client.fleet.snapshot()

The first time the service is asked, and what it says is recorded; each time after that it is answered out of the file,
and nothing is sent. ``mode="record"`` records anew, ``"replay"`` never asks the service, ``"none"`` leaves the cassette
out. A client that is nothing but a cassette needs neither an address nor a key, so that a notebook can be shipped with
its own and run anywhere, on Binder too::

    with MirrorClient.from_cassette("run.zip") as client:
        frame = client.fleet.snapshot()

Requests are known again by what they ask. What is asked several times is answered in the order of the recording, and
what only looks may be asked more often than it was. Polls of the notification log, watches and waits for devices are
answered no earlier than they could be; times in tables are those of the recording. What was never asked is a
:class:`~mirror_sdk.NotRecorded` that names it: most often it depends on the time of day, for which
``cassette.begun_at`` stands in, or on chance.

Access keys, headers and bodies of requests are not in the file. What the service told is: names, ids and values, also
those that were written where it shows them. :mod:`mirror_sdk.privacy` tells which of them may be personal. A recording
that ends in an error, or is killed, leaves the file as it was before. Notifications by a webhook come past a cassette,
and are refused with one. A cassette is of one client and its key.

Tests use the marker of the pytest plugin; see :mod:`mirror_sdk.testing`.
"""

from mirror_sdk.cassette.async_inserted import AsyncCassette
from mirror_sdk.cassette.inserted import Cassette
from mirror_sdk.cassette.opening import Mode, address_of, is_played

__all__ = ["AsyncCassette", "Cassette", "Mode", "address_of", "is_played"]
