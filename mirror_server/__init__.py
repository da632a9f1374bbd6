"""Reference server of the device state mirror service; this text is for who operates one.

An access key first, then the server::

    mirror-server keys create my-app --scope read --scope write
    mirror-server run --database sqlite:///mirror.db

What extensions add is told in topics of their own: ``mirror-server help`` lists them all. This one is about the core.

Settings
--------

Each is an option of ``mirror-server run``, whose ``--help`` says what it does and what holds without it, and a variable
of the environment, ``MIRROR_`` with the option's name: ``--keep-log-bytes`` is ``MIRROR_KEEP_LOG_BYTES``. Where several
values may be given, a variable has them separated by spaces.

- Where it listens: ``--host``, ``--port``. It speaks plain HTTP on loopback; TLS is an extension's (``help tls``), or a
  proxy's.
- Where the state is: ``--database``, ``sqlite:///FILE`` or ``postgresql://USER@HOST/NAME`` (extra ``postgresql``,
  PostgreSQL 14 or newer). Begin with SQLite, which needs nothing.
- What is kept of notifications, for how long and how much for one application: ``--keep-log-seconds``,
  ``--keep-log-bytes``.
- What a request may: ``--max-body-bytes``, ``--request-timeout-seconds`` (the head and then the body),
  ``--write-timeout-seconds`` (each 64 KiB of an answer), ``--failed-keys-per-minute`` (of IPv6, one ``/64`` is an
  address).
- What one application may: ``--max-parked-polls`` for all, and of these, and of the eight snapshots and histories that
  are sent at once, ``--poll-share``; ``--max-unread-bytes``. Under another WSGI server ``--max-blocking-polls``,
  which is the variable ``MIRROR_MAX_BLOCKING_POLLS`` alone.
- Who is called: ``--allow-callbacks-to``.
- How long a device may take to answer: ``--answer-timeout-seconds``.
- What time it is: ``--clock``. With a manual one times, expiry and the devices' rhythms stand still until the simulator
  advances them, before the year 9999.
- What it consists of: ``--without`` leaves an extension out, and so does a missing package. The log at the
  start and ``/healthz`` tell which there are. More in ``mirror-server help extensions``.

Limits of the interface itself are fixed: 20 waiting requests a device, 1024 presubscription rules of 256 paths,
10,000 notifications or 4 MiB a message.

Keys
----

A key is an application. Its scopes: ``read`` (devices, reading), ``write`` (writing, executing; what is said of devices
in the directory and the filters saved there, which all applications share), ``subscribe`` (subscriptions and rules),
``admin`` (the simulator, and ``/metrics``). It is printed once; only its hash is stored.

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
    mirror-server mark-restored      where it was put back by other means than 'restore'
    mirror-server check              damaged tables, and the invariants of the database
    mirror-server erase DEVICE_ID    all that is stored of a device, rules that name it too; a receipt

After ``restore`` programs are told that something is lost: a reader of notifications gets a gap (``Mirror-Gap``, which
names numbers that were never given, too), and what was taken of the mirror before is taken anew. A database that is
back at an earlier state by other means (``pg_restore``, a copied file, an earlier state of the disk or of a virtual
machine) gives numbers of what was lost once more, and who read the former ones passes over the new ones without a word:
``mirror-server mark-restored``, before a server runs on it, does for it what ``restore`` does. A file that is removed
or replaced while it is served takes nothing more: ``503`` until it is back under its name.

``backup`` and ``restore`` are for files; a PostgreSQL database is backed up with ``pg_dump``. A newer version brings a
database to its schema when it starts, or with any of its commands but ``backup``; stop the older server first. A schema
is made or upgraded in one transaction, so a kill or a full disk in the middle changes nothing, and who comes second
waits.

A damaged file is refused by everything but ``check``, which names the tables and counts what is wrong: ``restore`` a
backup. To find that out, opening reads the file once, about five seconds a GB. A file has one server, by whatever path,
symbolic or hard link; commands use the name that is served. The thread that writes keeps up to 32 MB of a SQLite
database in memory; the ``-wal`` file beside the database grows to about 33 MB under load.

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
  has the larger ``seq`` and ``revision`` all the same; a time alone does not tell.
- ``--clock manual`` begins behind all that is stored; the clock of the system behind a manual one goes back.

Watching it
-----------

- ``GET /healthz`` says that the process answers, ``GET /readyz`` that it can store (503 if not). Neither needs a key.
- ``GET /metrics`` is for Prometheus (``help metrics``). The log goes to stderr (``help logs``).
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

Websockets take two lines more, as ``mirror-server help streams`` has them.

A server for everybody should also limit requests in the proxy (``limit_req_zone $binary_remote_addr ...``). Which word
of a proxy is believed for who sends a request tells ``mirror-server help connections``.

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
