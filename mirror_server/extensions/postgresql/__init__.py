"""Several processes on one PostgreSQL database: one of them leads, and any of them answers.

One process serves a SQLite file. On a PostgreSQL database any number do, on any number of machines::

    pip install "device-state-mirror[server,postgresql]"
    createdb mirror
    mirror-server run --port 8080 --database postgresql://mirror@db.example.org/mirror
    mirror-server run --port 8081 --database postgresql://mirror@db.example.org/mirror

The database needs a user who may make tables in it; the password comes from ``~/.pgpass`` or ``PGPASSWORD``. Connect to
PostgreSQL itself, or to a pooler that keeps a connection for as long as its client does: locks and ``LISTEN`` belong to
the connection, which transaction pooling, as PgBouncer has it, would give to somebody else; the server detects that
when it starts, and stops with an error. Behind a proxy (``upstream
mirror { server 127.0.0.1:8080; server 127.0.0.1:8081; }``, and ``proxy_pass http://mirror;``) any process answers any
request, and an application may go to another one with each. Workers of gunicorn do as well
(``mirror-server help wsgi``).

- What is stored is seen by all at once. Each process stores all that waits in one transaction, and waits for another
  process only where both have to do with the same device, or with what concerns many (registrations, subscriptions,
  rules, keys, retention). Sequence numbers have no holes, and whoever sees the revision of a snapshot has seen every
  change below it; it may have seen some of those behind it too, and the next one tells them again.
- They tell each other by ``LISTEN``/``NOTIFY`` on the same database; a poll held by one is woken by what another
  stores.
- One of them is the leader: it holds the devices, delivers webhooks, ends what expires. It has an advisory lock, so
  when its process dies PostgreSQL gives the lead to another one, which goes on from what is stored: nothing is lost,
  nothing is stored twice. ``mirror_leader`` in ``/metrics`` tells which one it is. What only that process knows (plain
  polls, the simulator, the webhook's channel) is forwarded to it through the database; a change that was under way
  when it died is answered ``503``, to be looked at before it is repeated.
- A leader that hangs without ending, stopped by ``SIGSTOP`` for instance or by a virtual machine that is paused, keeps
  the lead: PostgreSQL cannot distinguish it from one that has nothing to do. Until it continues or is killed, devices
  are not served, webhooks not delivered, and requests that only the leader can serve end with ``503``. Have a
  supervisor request ``/readyz`` of each process, and kill one that does not respond.
- All run with the same ``--simulate``, ``--coap`` and ``--coaps``, and all or none with ``--keep-history``; the leader
  holds the ports of real devices, and writes the history. With ``--clock manual`` there can be one only.
- PostgreSQL restarts: what changes something is answered ``503`` with ``Retry-After`` until it is back, what devices
  did meanwhile is stored then, streams end and clients come back with their position. Nothing has to be restarted.
- Back it up with ``pg_dump`` while all run. Versions that bring a new schema: stop all processes, start the new ones. A
  dump or a snapshot that runs for long keeps PostgreSQL from tidying up behind the writers; take dumps of a large
  mirror from a replica.

What they bear
--------------

One process on SQLite stores several times as much as one on PostgreSQL, where each statement goes over a connection.
Move when you need more than one machine, a take-over without a restart, or more reads than one core answers. One run of
``python tests/benchmarks processes`` on a quiet virtual machine (AMD EPYC; processes and PostgreSQL on three cores
together, the load on the fourth; an fsync 0.15 ms; medians of three rounds). ``on one`` is one process on PostgreSQL,
and the last columns are how many times as much two and four of them do::

    a second                           SQLite  on one  ratio   two  four
    E1, 20 resources                    6,900   2,100   0.30   1.9   3.2
    a write: request, device, answer    1,700     350   0.20   1.2   1.2
    observations, one by one           17,000   9,300   0.53
    observations, groups of 500        49,000  34,000   0.72

The table is older than three changes. Requests that arrive together now ask the database once whether anything changed:
on two slow cores E1 on one process came to 0.85 of SQLite, and to 0.58 while values come. Requests to devices that are
accepted or end together are stored together: a write took 1.3 ms of the cores, 0.3 of them PostgreSQL's, where it had
taken 2.6, and on SQLite 0.8; with server, devices and PostgreSQL on one core the rate came to 0.4 and 0.6 of SQLite's.
On two cores that all shared, and 64 connections, one process did 0.86 of what SQLite did, requests and writes alike;
two did 1.6 times the requests of one and 1.2 to 1.4 times the writes, four no more than one: a write costs 1.0, 1.4 and
1.7 ms of the cores with one, two and four processes. Few connections to each cost more, as what comes to a process
together is stored together: with sixteen in all, a write costs 3.6 ms with four processes.

Reads grow with the processes for as long as PostgreSQL has cores for them, to 7,600 a second with four. The writes of
this table took turns; since they run beside each other, accepting a request grows with the processes, and storing what
a device answers and observes is the leader's still, which stores together what waits. At 9,300 observations a second,
one a device every ten minutes, that is a fleet of 5.6 million. A device with 20 resources takes 8 KB with its indexes
(6.4 KB of them its resources), a kept notification 0.43 KB: 45 GB, and the logs are bounded by ``--keep-log-bytes``.
The figures are of 1,000 devices: where memory does not hold the fleet, the disk decides. What more than one database
would take is in the repository, ``.github/decisions/0006-shards-on-paper.md``.
"""

# To read it begin with ``membership``, then ``leadership`` and ``store``.

from __future__ import annotations

from mirror_server.hooks import extends

_LOCATION = "mirror_server.extensions.postgresql.store.location:PostgresLocation"


@extends
def needs() -> list[str]:
    """What connects to PostgreSQL."""
    return ["psycopg"]


@extends
def locations() -> dict[str, str]:
    """The database of a URL, as libpq takes it."""
    return {"postgresql": _LOCATION, "postgres": _LOCATION}


@extends
def help_topics() -> dict[str, str]:
    """What an operator has to know of it."""
    return {"processes": __name__}
