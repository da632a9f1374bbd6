"""Several processes on one PostgreSQL database: one of them is the leader, and all of them serve requests.

A SQLite file is served by one process, a PostgreSQL database by any number of processes on any number of machines::

    pip install "device-state-mirror[server,postgresql]"
    createdb mirror
    mirror-server run --port 8080 --database postgresql://mirror@db.example.org/mirror
    mirror-server run --port 8081 --database postgresql://mirror@db.example.org/mirror

The database user has to be allowed to create tables. The password comes from ``~/.pgpass`` or ``PGPASSWORD``.

Connect to PostgreSQL directly, or to a pooler in session mode. Locks and ``LISTEN`` belong to a connection, which a
pooler in transaction mode, such as PgBouncer, would give to another client. The server detects that at startup and
stops with an error.

Put a proxy in front, for example nginx with ``upstream mirror { server 127.0.0.1:8080; server 127.0.0.1:8081; }`` and
``proxy_pass http://mirror;``. Any process serves any request, and an application may use another process for each.
Workers of gunicorn work as well (``mirror-server help wsgi``).

How the processes work together
-------------------------------

- Stored changes are visible to all processes at once. Each process stores all waiting work in one transaction. It waits
  for another process only if both concern the same device, or concern many (registrations, subscriptions, rules, keys,
  retention).
- Sequence numbers have no holes. A snapshot with a revision contains every change up to that revision. It may contain
  some later changes too; the next refresh returns these again.
- The processes notify each other by ``LISTEN``/``NOTIFY`` on the same database. A poll at one process is woken by a
  change that another one stores.
- One process is the leader: it connects to devices, delivers webhooks and handles expiry. It has an advisory lock. If
  it dies, PostgreSQL gives the lock to another process, which continues from the database: nothing is lost or stored
  twice. ``mirror_leader`` in ``/metrics`` shows the leader.
- Requests that only the leader can serve (plain polls, the simulator, the webhook's channel) are forwarded to it
  through the database. If the leader dies during a change, the request gets ``503``. Check whether the change took
  effect before you retry.
- A leader that hangs without ending stays the leader, for example after ``SIGSTOP`` or in a paused virtual machine:
  PostgreSQL cannot distinguish it from an idle one. Until it continues or is killed, devices are not served, webhooks
  are not delivered, and requests for the leader get ``503``. Let a supervisor request ``/readyz`` of each process and
  kill one that does not respond.
- All processes need the same ``--simulate``, ``--coap`` and ``--coaps``, and all or none ``--keep-history``. The leader
  opens the ports for real devices and writes the history. With ``--clock manual`` there can be only one process.

Operation
---------

- If PostgreSQL restarts, changes get ``503`` with ``Retry-After`` until it is back. Changes by devices are stored then.
  Streams end, and clients reconnect with their positions. You do not need to restart anything.
- Back up with ``pg_dump`` while all processes run. A long dump or snapshot delays PostgreSQL's vacuum; take dumps of a
  large mirror from a replica.
- For a version with a new schema, stop all processes, then start the new ones.

Performance
-----------

One process on SQLite stores several times as much as one on PostgreSQL, where each statement goes over a connection.
Move to PostgreSQL if you need more than one machine, failover without a restart, or more reads than one core can serve.

The table shows one run of ``python tests/benchmarks processes`` on a quiet virtual machine (AMD EPYC). Processes and
PostgreSQL shared three cores, the load ran on the fourth, an fsync took 0.15 ms, and the values are medians of three
rounds. ``on one`` is one process on PostgreSQL. The last columns are the factors for two and four processes::

    a second                           SQLite  on one  ratio   two  four
    E1, 20 resources                    6,900   2,100   0.30   1.9   3.2
    a write: request, device, response  1,700     350   0.20   1.2   1.2
    observations, one by one           17,000   9,300   0.53
    observations, groups of 500        49,000  34,000   0.72

The table is older than three changes:

- Simultaneous requests now check together whether anything changed. On two slow cores, E1 on one process reached 0.85
  of SQLite, and 0.58 while values arrived.
- Requests to devices that are accepted or end together are stored together. A write took 1.3 ms of the cores, 0.3 of
  them PostgreSQL's, instead of 2.6; on SQLite 0.8. With server, devices and PostgreSQL on one core, the rate was 0.4
  and 0.6 of SQLite's.
- Transactions of different processes now run concurrently. On two shared cores with 64 connections, one process reached
  0.86 of SQLite for requests and writes. Two processes did 1.6 times the requests and 1.2 to 1.4 times the writes of
  one, four no more than one. A write cost 1.0, 1.4 and 1.7 ms of the cores with one, two and four processes. With few
  connections per process it costs more, because less is stored together: 3.6 ms with sixteen connections and four
  processes.

Reads scale with the processes while PostgreSQL has free cores, to 7,600 per second with four. Accepting requests scales
with the processes too. Responses and observations of devices are stored by the leader, which batches waiting work.
9,300 observations per second, one per device every ten minutes, are a fleet of 5.6 million.

A device with 20 resources takes 8 KB with its indexes (6.4 KB for the resources), and a stored notification 0.43 KB.
5.6 million devices take 45 GB, and ``--keep-log-bytes`` limits the logs. The figures are for 1,000 devices: if memory
does not hold the fleet, the disk limits the rate. ``.github/decisions/0006-shards-on-paper.md`` in the repository
describes what more than one database would require.
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
