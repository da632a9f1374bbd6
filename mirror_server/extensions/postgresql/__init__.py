"""Several processes on one PostgreSQL database: one of them is the leader, and all of them serve requests.

A SQLite file is served by one process, a PostgreSQL database by any number of processes on any number of machines::

    pip install "device-state-mirror[server,postgresql]"
    createdb mirror
    mirror-server run --port 8080 --database postgresql://mirror@db.example.org/mirror
    mirror-server run --port 8081 --database postgresql://mirror@db.example.org/mirror

Use PostgreSQL if you need more than one machine, failover without a restart, or more reads than one core can serve.
Otherwise SQLite is faster.

The database user has to be allowed to create tables. The password comes from ``~/.pgpass`` or ``PGPASSWORD``.

Connect to PostgreSQL directly, or through a pooler in session mode. A pooler in transaction mode, such as PgBouncer,
does not work: locks and ``LISTEN`` belong to a connection, which it would give to another client. The server detects
this at startup and stops with an error.

Put a proxy in front, for example nginx with ``upstream mirror { server 127.0.0.1:8080; server 127.0.0.1:8081; }`` and
``proxy_pass http://mirror;``. Any process serves any request, so an application may use another process each time.
Workers of gunicorn work as well (``mirror-server help wsgi``).

How the processes work together
-------------------------------

- One process is the leader: it connects to devices, delivers webhooks, handles expiry and writes the history. It holds
  an advisory lock. If it dies, PostgreSQL gives the lock to another process, which continues from the database: nothing
  is lost or stored twice. ``mirror_leader`` in ``/metrics`` shows the leader.
- All processes need the same ``--simulate``, ``--coap`` and ``--coaps``, and all or none ``--keep-history``. Only the
  leader opens the ports for real devices. With ``--clock manual`` there can be only one process.
- Stored changes are visible to all processes at once. The processes notify each other by ``LISTEN``/``NOTIFY``, so a
  change that one process stores wakes a poll at another one.
- Each process stores all waiting work in one transaction. It waits for another process only if both concern the same
  device, or concern many (registrations, subscriptions, rules, keys, retention).
- Sequence numbers have no holes. A snapshot with a revision contains every change up to that revision. It may contain
  some later changes too; the next refresh returns these again.
- Requests that only the leader can serve (plain polls, the simulator, the webhook's channel) are forwarded to it
  through the database. If the leader dies during a change, the request gets ``503``. Check whether the change took
  effect before you retry.
- A leader that hangs without ending stays the leader, for example after ``SIGSTOP`` or in a paused virtual machine:
  PostgreSQL cannot distinguish it from an idle one. Until it continues or is killed, devices are not served, webhooks
  are not delivered, and requests for the leader get ``503``. Let a supervisor request ``/readyz`` of each process and
  kill one that does not respond.

Operation
---------

- If PostgreSQL restarts, requests that change something get ``503`` with ``Retry-After`` until it is back. Changes by
  devices are stored then. Streams end, and clients reconnect with their positions. You do not need to restart anything.
- Back up with ``pg_dump`` while all processes run. A long dump or snapshot delays PostgreSQL's vacuum; take dumps of a
  large mirror from a replica.
- For a version with a new schema, stop all processes, then start the new ones.

Performance
-----------

Each figure is a ratio of rates: one process on PostgreSQL to one on SQLite, and several processes to one. Servers,
devices and PostgreSQL shared the cores of one machine: two cores, or three for values with a star::

    rate                                  1 / SQLite       2 / 1         4 / 1
    E1: read a device object              0.85             1.9 *         3.2 *
    E1 while values arrive                0.58
    requests to devices, accepted         0.86             1.6           1.0
    a write: request, device, response    0.86             1.2 to 1.4    1.0
    observations, one by one              0.53 *
    observations, groups of 500           0.72 *

- Reads scale with the processes while PostgreSQL has free cores: to 7,600 per second with four. Accepting requests
  scales with the processes too.
- The leader stores responses and observations of devices, and batches waiting work. It stored 9,300 observations per
  second. With one per device every ten minutes, that is a fleet of 5.6 million.
- A write takes 1.0 ms of the cores with one process, 1.4 with two and 1.7 with four. With few connections per process,
  each transaction stores less work: with sixteen connections and four processes a write takes 3.6 ms.

A device with 20 resources takes 8 KB with its indexes (6.4 KB for the resources), and a stored notification 0.43 KB.
5.6 million devices take 45 GB, and ``--keep-log-bytes`` limits the logs. The figures are for 1,000 devices: if memory
does not hold the fleet, the disk limits the rate. The measurements are in ``.github/decisions`` of the repository, and
``python tests/benchmarks processes`` repeats them. ``0006-shards-on-paper.md`` there describes what more than one
database would require.
"""

# Start reading with ``membership``, then ``leadership`` and ``store``.

from __future__ import annotations

from mirror_server.hooks import extends

_LOCATION = "mirror_server.extensions.postgresql.store.location:PostgresLocation"


@extends
def needs() -> list[str]:
    """Return the package that connects to PostgreSQL."""
    return ["psycopg"]


@extends
def locations() -> dict[str, str]:
    """Add the URLs of PostgreSQL databases, in the format of libpq."""
    return {"postgresql": _LOCATION, "postgres": _LOCATION}


@extends
def help_topics() -> dict[str, str]:
    """Add this module as a topic of the manual."""
    return {"processes": __name__}
