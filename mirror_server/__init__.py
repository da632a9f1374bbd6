"""Reference server of the device state mirror service; this text is for who operates one.

An access key first, then the server::

    mirror-server keys create my-app --scope read --scope write
    mirror-server run --database sqlite:///mirror.db

``mirror-server help`` lists what is told apart: ``devices`` (real ones, their keys and their network),
``notifications`` (polls, webhooks, websockets, streams), ``older-calls`` (of the public API, for programs that use
them), ``programs`` (of others that run, and which of their calls are out), ``history`` (what is kept of what happened),
``processes`` (several of them on PostgreSQL, and what they bear), ``wsgi`` (gunicorn, waitress).

Settings
--------

Each is an option of ``mirror-server run``, whose ``--help`` says what it does and what holds without it, and a variable
of the environment, ``MIRROR_`` with the option's name: ``--keep-log-bytes`` is ``MIRROR_KEEP_LOG_BYTES``. Where several
values may be given, a variable has them separated by spaces.

- Where it listens: ``--host``, ``--port``. It speaks plain HTTP on loopback; with ``--tls-cert`` and ``--tls-key`` it
  speaks TLS, and loads another certificate at ``SIGHUP``, without an interruption (of systemd:
  ``ExecReload=/bin/kill -HUP $MAINPID``; without TLS the signal ends the server). One that has ended, or ends within 14
  days, is told in the log when it is loaded; ``mirror_tls_certificate_ends_at_seconds`` of ``/metrics`` has its end.
  The Python client trusts an authority of your own by ``SSL_CERT_FILE=authority.pem``. A reverse proxy is better where
  it renews certificates, has them for more than one service, or is to limit requests.
- Where the state is: ``--database``, ``sqlite:///FILE`` or ``postgresql://USER@HOST/NAME`` (extra ``postgresql``,
  PostgreSQL 14 or newer). Begin with SQLite, which needs nothing.
- What is kept of notifications, for how long and how much for one application: ``--keep-log-seconds``,
  ``--keep-log-bytes``.
- How long the list of what became of registrations is kept (``/v3/device-events``), and how many entries at most:
  ``--keep-device-events``, ``--max-device-events``.
- What is kept of what happened, and for how long: ``--keep-history`` (``30d``; nothing without it). Where days of it
  that are over go: ``--history-archive``. More in ``mirror-server help history``.
- What a connection may before a key is asked for: ``--max-connections`` (each is an open file: the server raises the
  limit of ``ulimit -n`` as far as it may, and does not start where that leaves too few), ``--max-head-bytes``,
  ``--max-headers``, ``--max-body-bytes``, ``--idle-timeout-seconds``,
  ``--request-timeout-seconds`` (the head and then the body), ``--write-timeout-seconds`` (each 64 KiB of an answer),
  ``--websocket-ping-seconds``, ``--websocket-pong-seconds`` (an open websocket whose client is silent),
  ``--failed-keys-per-minute`` (of IPv6, one ``/64`` is an address).
- What one application may: ``--max-parked-polls`` for all, and of these, and of the eight snapshots and histories that
  are sent at once, ``--poll-share``; ``--max-unread-bytes``. Under another WSGI server ``--max-blocking-polls``,
  which is the variable ``MIRROR_MAX_BLOCKING_POLLS`` alone.
- Who is believed, and who is called: ``--trust-proxy``, ``--allow-callbacks-to``.
- What stands in the log: ``--log-format`` (``json`` for programs), ``--access-log`` or ``--no-access-log``.
- Where real devices come: ``--coap`` (plain text; beyond this machine with ``--coap-insecure`` alone), ``--coaps``
  (DTLS); how long after its last message a device in queue mode can be reached, ``--coap-awake-seconds``; and what they
  may: ``--max-coap-devices``, ``--max-coap-links``, ``--max-coap-payload-bytes``, ``--coap-registrations-per-minute``.
- Simulated devices: ``--simulate`` has them, and the bench (``/sim/v1``; in Python ``Bench(client)``, and
  ``AsyncBench(client)`` with an ``AsyncMirrorClient``) to play them with; ``--seed``, ``--clock``,
  ``--answer-timeout-seconds``. With a manual clock times, expiry and the devices' rhythms stand still until the bench
  advances them, before the year 9999.

- What it consists of: ``--without`` leaves an extension out, and so does a missing package. The log at the
  start and ``/healthz`` tell which there are. More in ``mirror-server help extensions``.

``mirror-server demo`` has ``--devices``, ``--pace``, ``--stop-with-stdin`` and ``--key`` (``MIRROR_DEMO_KEY``) besides.
``demo --database`` keeps a demo's state, and its access key in ``FILE.key`` for you alone, so that programs and
recordings go on after the next start. A file that others may use, a link or anything else there is refused; remove it
for another key.

Limits of the interface itself are fixed: 20 waiting requests a device, 1024 presubscription rules of 256 paths, 100
filters (10 of them by name, description, etag or attributes) with 1000 values, 1000 saved filters, five custom
attributes a device, 10,000 notifications or 4 MiB a message.

Keys
----

A key is an application. Its scopes: ``read`` (devices, reading), ``write`` (writing, executing; what is said of devices
in the directory and the filters saved there, which all applications share), ``subscribe`` (subscriptions and rules),
``admin`` (the bench, and ``/metrics``). It is printed once; only its hash is stored.

``mirror-server keys renew my-app`` prints another key for the same application, whose log, rules, subscriptions,
channel and positions stay; the key it had is good for another day (``--overlap 7d``; ``--overlap 0`` ends it at once,
where it is in wrong hands), as ``keys list`` tells. ``mirror-server keys revoke KEY_ID`` ends the key and its webhook
or websocket, rules and subscriptions, and deletes its notifications. Polls, streams and reads that are held open with a
key that ended deliver nothing more; a poll gets a ``401``.

Who comes with wrong keys again and again is told ``429`` for a while. The right key is let in whatever others did with
its id, which stands in logs and is no secret.

What is stored
--------------

Every accepted request is on disk before its ``202``. After a crash the server goes on where it was: queued commands are
delivered, expired ones fail, and the notification log continues with the next number. A read or write that was sent
and had no response yet is sent again. An execute (``POST``) is not, because the device would execute it twice: it ends
with 504 ``TIMEOUT``, which says that its outcome is unknown. For the same reason it has no ``retry`` by default.

A restart makes no event: what devices sent is not told again, and the times of a resource never go back. A device
object is kept until six months after the device's last connection.

Values may be personal data of the people who use the devices: the database file and its backups need the same care as
those data, and answers tell proxies and browsers not to keep them (``Cache-Control: no-store``). Keys of real devices
stand there as they are. Files are made readable by their owner alone. These commands look after them::

    mirror-server backup FILE        while it runs; 'restore FILE' makes a database from it
    mirror-server went-back          where it was put back by other means than 'restore'
    mirror-server check              damaged tables, and the invariants of the database
    mirror-server erase DEVICE_ID    all that is stored of a device, rules that name it too; a receipt

After ``restore`` programs are told that something is lost: a reader of notifications gets a gap (``Mirror-Gap``, which
names numbers that were never given, too), and what was taken of the mirror before is taken anew. A database that is
back at an earlier state by other means (``pg_restore``, a copied file, an earlier state of the disk or of a virtual
machine) gives numbers of what was lost once more, and who read the former ones passes over the new ones without a word:
``mirror-server went-back``, before a server runs on it, does for it what ``restore`` does. A file that is removed or
replaced while it is served takes nothing more: ``503`` until it is back under its name.

``backup`` and ``restore`` are for files; a PostgreSQL database is backed up with ``pg_dump``. A newer version brings a
database to its schema when it starts, or with any of its commands but ``backup``; stop the older server first. A schema
is made or upgraded in one transaction, so a kill or a full disk in the middle changes nothing, and who comes second
waits.

A damaged file is refused by everything but ``check``, which names the tables and counts what is wrong: ``restore`` a
backup. To find that out, opening reads the file once, about five seconds a GB. A file has one server, by whatever path,
symbolic or hard link; commands use the name that is served. The thread that writes keeps up to 32 MB of a SQLite
database in memory; the ``-wal`` file beside the database grows to about 50 MB under load.

A clock that jumps
------------------

Times are those of the clock of the system, which is best kept right by NTP. Where it is set by a minute or more, or the
machine slept, the log says so, and at the start if things are stored that are yet to come. What a program waits for
goes on by a clock that is not set, and so do time-outs of devices and pauses of webhooks.

- Ahead, or after a sleep: what is due by then is due at once. Requests end with ``REQUEST_EXPIRED``, registrations that
  were not updated end, and devices that come back register again. What is deleted for its age (notifications, device
  events, history, devices that were not connected for six months, webhooks that failed for a day) goes after an hour,
  not at once, so that a clock that was set wrong can be set right before; so it is too after a start that is much later
  than the last end. A clock that is wrong for longer deletes what is old by it.
- Back: requests, registrations and what is kept end at the instants that were told, so that much later. What came later
  has the larger ``seq`` and ``revision`` all the same; a time alone does not tell. A stretch in which no server ran is
  no gap in the history if the clock says that it did not last.
- The history has what happened while the clock was ahead at those times: it is in no answer of the present, and in
  those of that time when it comes. If all of it was begun or trimmed by then, questions about the present are refused
  for an hour, and it begins anew with what the mirror has: until then the clock may be behind, and the history right.
- ``--clock manual`` begins behind all that is stored; the clock of the system behind a manual one goes back.

Watching it
-----------

- ``GET /healthz`` says that the process answers, ``GET /readyz`` that it can store (503 if not). Neither needs a key.
- ``GET /metrics`` is for Prometheus and needs a key with the scope ``admin``: requests and their times by route (with
  the wait for a device where ``Prefer: wait`` asked for it), waiting device requests, open polls (streams and
  websockets with them), connections, what clients leave unread, size of the notification logs and of the history
  (``mirror_history_rows``, ``mirror_history_bytes``), webhooks and their failures, devices by state; of real devices
  (``mirror_lwm2m_...``, ``mirror_coap_...``) registrations, messages by kind, retransmissions, handshakes that failed,
  sessions.
- The log goes to stderr, one line a request: method, path, status, duration, request id (``X-Request-ID``),
  application, async-id; of real devices one line a registration and one a request that failed. It holds no keys, no
  queries and no values. A pipe that is not read stops nothing: 10,000 lines are queued, further ones are dropped and
  counted (``mirror_lost_log_lines``).
- A disk that is full or cannot be written makes requests that change something answer ``503``, while all else is read
  on. What devices did meanwhile is stored as soon as it can be. More than 5000 changes that wait make the next one
  ``429``.
- One application has a share of the polls, streams and websockets, and of questions that take long, as filters by name,
  description and attributes, long lists and many notifications at once do; the answers it does not read are bounded.
  Beyond that it is told ``429``, and nobody else. Applications take turns with questions that take long.
- ``SIGTERM`` stops it within seconds: open polls are answered, what was accepted is on disk.

As a service
------------

Of systemd, for instance, ``/etc/systemd/system/mirror-server.service``::

    [Unit]
    Description=Device state mirror
    After=network.target

    [Service]
    DynamicUser=yes
    StateDirectory=mirror
    Environment=MIRROR_DATABASE=sqlite:////var/lib/mirror/mirror.db MIRROR_LOG_FORMAT=json
    ExecStart=/opt/mirror/bin/mirror-server run
    Restart=on-failure
    ProtectSystem=strict
    ProtectHome=yes
    NoNewPrivileges=yes
    PrivateTmp=yes
    LimitNOFILE=65536

    [Install]
    WantedBy=multi-user.target

Behind a proxy
--------------

The proxy has to let an answer take a minute and pass server-sent events on at once. With nginx, and
``MIRROR_TRUST_PROXY=127.0.0.1`` in the service's environment::

    server {
        listen 443 ssl;
        server_name mirror.example.org;
        ssl_certificate     /etc/ssl/mirror.pem;
        ssl_certificate_key /etc/ssl/mirror.key;
        location / {
            proxy_pass http://127.0.0.1:8080;
            proxy_http_version 1.1;
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_set_header X-Forwarded-Proto https;
            proxy_read_timeout 75s;
            proxy_buffering off;
        }
    }

Websockets take two lines more, as ``mirror-server help notifications`` has them.

Wrong keys count by the address that the proxy names, and without ``--trust-proxy`` by that of the proxy itself, where
all clients are one. ``unix`` is a proxy that comes by a socket file. Where several proxies stand in a row, name them
all; each then adds to the header (``$proxy_add_x_forwarded_for``), which is believed from its end back to the first
address that is no proxy of yours. What a client writes into it itself is never believed. A server for everybody should
also limit requests in the proxy (``limit_req_zone $binary_remote_addr ...``).

What it serves
--------------

A browser sees the devices, their drift, what waits and what happens at ``/``, with an access key. The whole interface
is described in OpenAPI 3.1 at ``/openapi.json`` of a running server, and the Python packages at ``/reference/``; both
need no key.

Programs written for the public API that the interface follows (Arm Pelion, Izuma Device Management: Connect,
Notifications, Device Echo) run against it; the tests run one with the vendor's own Python SDK, unmodified. There is one
exception: ``PUT /v2/subscriptions`` is answered by ``202``, as the specification has it, where that API answers
``204``, so a program that takes nothing but ``204`` for success has to take both.
"""

from typing import TYPE_CHECKING

import mirror_sdk

if TYPE_CHECKING:
    __version__: str
else:

    def __getattr__(name: str) -> object:
        if name == "__version__":
            return mirror_sdk.__version__
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
