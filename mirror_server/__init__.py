"""Operating the reference server of the device state mirror: settings, keys, storage, monitoring, deployment.

Create an access key, then start the server::

    mirror-server keys create my-app --scope read --scope write
    mirror-server run --database sqlite:///mirror.db

This topic covers the core. Each extension has a topic of its own, and ``mirror-server help`` lists them all.

Settings
--------

Each setting is an option of ``mirror-server run`` and an environment variable: ``MIRROR_`` with the name of the option.
For example, ``--keep-log-bytes`` is ``MIRROR_KEEP_LOG_BYTES``. Separate several values in a variable with spaces.
``mirror-server run --help`` shows the meaning and the default of each.

- Address: ``--host``, ``--port``. The server speaks plain HTTP on loopback. For TLS use the extension (``help tls``) or
  a proxy.
- Database: ``--database``, ``sqlite:///FILE`` or ``postgresql://USER@HOST/NAME`` (extra ``postgresql``, PostgreSQL 14
  or newer). Start with SQLite, which needs no setup.
- Retention of notifications per application: ``--keep-log-seconds`` (``86400`` or ``24h``), ``--keep-log-bytes``.
- Limits of a request: ``--max-body-bytes``, ``--request-timeout-seconds`` (the head, and then the body),
  ``--write-timeout-seconds`` (each 64 KiB of a response), ``--failed-keys-per-minute`` per address (an IPv6 ``/64``
  counts as one address).
- Limits on open polls: ``--max-parked-polls`` for all applications together. ``--poll-share`` is the fraction of
  the open polls that one application may hold. It also applies to snapshots and histories, of which the server sends
  at most eight at once. ``--max-unread-bytes`` limits unread responses. Under another WSGI server, the variable
  ``MIRROR_MAX_BLOCKING_POLLS`` (``--max-blocking-polls``) limits polls instead.
- Allowed webhook networks: ``--allow-callbacks-to``.
- Timeout of a device: ``--answer-timeout-seconds``.
- Clock: ``--clock``. A manual clock stands still until the simulator advances it, at most to the end of year 9998.
  Times, expiry and reporting intervals follow it.
- Extensions: ``--without`` leaves one out. An extension that needs a missing package is left out too. The startup log
  and ``/healthz`` list the loaded extensions. See ``mirror-server help extensions``.

Some limits are fixed: 20 pending requests per device, 1024 presubscription rules of 256 paths each, and 10,000
notifications or 4 MiB per message.

Keys
----

Each key belongs to one application; the server distinguishes applications by their keys. The scopes of a key are:

- ``read``: devices, and reading values.
- ``write``: writing and executing. It also covers the directory's descriptions of devices and saved filters, which all
  applications share.
- ``subscribe``: subscriptions and rules.
- ``admin``: the simulator, and ``/metrics``.

A key is printed once; the server stores only its hash. The id of a key appears in logs and is not a secret.

``mirror-server keys renew my-app`` prints a new key for the same application. The log, rules, subscriptions, channel
and positions stay. The old key works for another day, as ``keys list`` shows. Set another time with ``--overlap 7d``.
If the old key has leaked, ``--overlap 0`` ends it at once.

``mirror-server keys revoke KEY_ID`` ends the key, its webhook or websocket, its rules and its subscriptions, and
deletes its notifications. Open polls, streams and reads of the key deliver nothing more; a poll gets a ``401``.

A client that repeatedly sends wrong keys gets ``429`` for a while. The right key is always accepted, even if other
clients sent wrong keys with its id.

Storage
-------

Every accepted request is on disk before its ``202`` is sent. These commands maintain the database::

    mirror-server backup FILE        copy a running database
    mirror-server restore FILE       make a database from a backup
    mirror-server mark-restored      after a restore by other means than 'restore'
    mirror-server check              check for damaged tables and violated invariants
    mirror-server erase DEVICE_ID    erase all data of a device, and rules that name it; prints a receipt

Values can be personal data of the people who use the devices. Protect the database file and its backups accordingly.
The files are readable by their owner only. The database contains the keys of real devices in plain form. Responses have
``Cache-Control: no-store``, so proxies and browsers do not store them.

A device object is stored until six months after the last connection of the device.

One server at a time can use a database file. A second one is rejected, even if it uses another path, a symbolic link or
a hard link. Commands have to name the file as the server does. The writer thread caches up to 32 MB of a SQLite
database. The ``-wal`` file next to the database grows to about 33 MB under load.

If a database file is removed or replaced while a server uses it, requests that change something get ``503`` until the
file is back under its name.

What a restart keeps and loses
------------------------------

A crash keeps and loses the same as a restart. Neither adds values or notifications: nothing is reported again, and the
times of a resource never decrease. A restart keeps:

- Accepted requests. Expired ones fail; the others are delivered. A read or write that was sent and had no response is
  sent again.
- The notification log with its numbers and positions, rules and subscriptions, reported and desired values, and the
  history.
- Registrations of real devices (``mirror-server help devices``).

It loses, or leaves uncertain:

- Executes that were sent and had no response. A device would execute twice, so they are not sent again. They end with
  504 ``TIMEOUT``: the outcome is unknown. For the same reason the query parameter ``retry`` of an execute is 0 by
  default.
- Values that devices sent in the meantime. A history has a row for this gap.
- Open polls, streams and websockets. Clients open them again and continue from their positions.
- The response to a webhook delivery in progress. The message is delivered again, with the same ``uid``.
- DTLS sessions. Each device needs a new handshake.
- Everything in ``mirror-server demo`` or ``mirror lab`` without ``--database``.

Backups, upgrades and damage
----------------------------

``backup`` and ``restore`` are for SQLite files. Back up a PostgreSQL database with ``pg_dump``.

``restore`` informs clients of the loss. A reader of notifications gets a gap (``Mirror-Gap``). The gap may
include numbers of entries that never existed. Tables that were read before are reloaded completely at the next refresh.

If you restore a database by other means, run ``mirror-server mark-restored`` before you start a server on it. Other
means are ``pg_restore``, a copied file, or a snapshot of the disk or virtual machine. Without this command, the server
uses the numbers of the lost changes again, and clients that read the lost changes skip the new ones.

A newer version upgrades the schema when it starts, or with any of its commands except ``backup``. Stop all older
servers first: while one runs, the newer version fails with an error and changes nothing. A schema is created or
upgraded in one transaction, so a kill or a full disk changes nothing. A second process waits.

To detect damage, the server reads the file once when it opens it, which takes about five seconds per GB. Only ``check``
accepts a damaged file: it lists the damaged tables and counts the violations. Then ``restore`` a backup.

Clock jumps
-----------

Times come from the system clock. Use NTP. The log reports a clock that is set by a minute or more, and a machine that
slept. At startup it reports stored times that lie in the future. Timeouts of devices, waits of programs and retry
delays of webhooks use a monotonic clock, so jumps do not affect them.

- Clock set forward, or machine slept: everything that is due by then happens at once. Requests end with
  ``REQUEST_EXPIRED``. Registrations that were not updated expire, and devices that return register again.
- Deletions by age wait for an hour after such a jump, so that you can correct a wrong clock first. They also wait if
  the server starts long after it stopped. This applies to notifications, device events, history, devices not connected
  for six months, and webhooks that failed for a day. If the clock stays wrong for longer than an hour, data that is old
  by that clock is deleted.
- Clock set back: end times do not change, so requests, registrations and retention end later by the size of the jump.
  Newer entries still have larger ``seq`` and ``revision`` numbers; do not order by time alone.
- ``--clock manual`` starts after the newest stored time. If a database was last used with a manual clock,
  starting with the system clock counts as setting the clock back.

Clocks of devices
-----------------

The reported value is the last value that arrived, regardless of the time that the device sent with it. A value that
arrives later replaces it even if the clock of the device is slow, or if the device sends an older, stored measurement.
Only two things keep an older value from replacing a newer one. If one message contains several values of a resource,
the one with the newest time is stored. And a notification that the network delivered after a newer one of the same
observation is discarded, by its CoAP sequence number.

``reported_at`` is the time of receipt by the clock of the server, so the clock of a device does not change it. A time
from the device (in SenML each value can have one) is the ``timestamp`` of the notification, and ``changed_at`` in the
history. Only ``as_of`` returns it as ``reported_at``. A time that is in the future or before 1970 is replaced by the
time of receipt. Timestamps of notifications never decrease: a time before that of the previous notification of the same
resource is replaced by the previous time. The history stores the time of the device unchanged.

Monitoring
----------

- ``GET /healthz`` shows that the process responds, ``GET /readyz`` that it can store (503 if not). Neither needs a key.
- ``GET /metrics`` is for Prometheus (``help metrics``). The log goes to stderr (``help logs``).
- If the disk is full or read-only, requests that change something get ``503``; reads continue. Changes by devices are
  stored as soon as possible. If more than 5000 changes wait, the next one gets ``429``.
- Each application has a share of polls, streams, websockets and slow queries, and a limit on unread responses. Beyond
  that only this application gets ``429``. Slow queries are those that filter by name, description or
  attributes, list many devices, or read many notifications at once. Applications take turns with slow queries.
- ``SIGTERM`` stops the server within seconds: open polls are completed, and accepted requests are on disk.

As a service
------------

With systemd, for example, ``/etc/systemd/system/mirror-server.service``::

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

The proxy has to allow responses that take a minute, and to pass server-sent events without buffering. With nginx, and
``MIRROR_TRUST_PROXY=127.0.0.1`` in the environment of the service::

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

Websockets need two more lines; see ``mirror-server help streams``. ``mirror-server help connections`` describes from
which proxies the server accepts client addresses. A public server should also limit requests in the proxy
(``limit_req_zone $binary_remote_addr ...``).

Web page, API description and compatibility
-------------------------------------------

The web page at ``/`` shows devices, drift, pending requests and events. It needs an access key. ``/openapi.json``
describes the whole interface in OpenAPI 3.1, and ``/reference/`` the Python packages. Both need no key.

The interface follows a public API: Arm Pelion, later Izuma Device Management (Connect, Notifications, Device Echo).
Programs for that API run against the server; the tests run the vendor's own Python SDK unmodified. There is one
exception: ``PUT /v2/subscriptions`` returns ``202``, as the specification requires; that API returns ``204``. A
program that accepts only ``204`` has to accept both.
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
