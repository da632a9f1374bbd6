"""The notification log, and how an application reads it: long polling and webhooks.

Each application has one log. A reader polls it with its own position::

    curl -H "Authorization: Bearer $API_KEY" "$API_HOST/v2/notification/pull?after=0"

A webhook (``PUT /v2/notification/callback``) receives one message at a time, in order. If the URL fails, the server
retries after 1, 2, 4 ... 120 seconds, and gives up after 24 hours of failures. ``GET /v2/notification/channel`` shows
the state of the channel. For websockets and event streams see ``mirror-server help streams``.

The response with the request
-----------------------------

``POST /v2/device-requests/{id}?async-id=ID`` with ``Prefer: wait=SECONDS`` (RFC 7240) holds the ``202`` back until the
device has responded, for at most 10 seconds. This is an extension of the interface. The body then contains the response
as ``async-response``, in the form of a poll with ``after``, and the header ``Preference-Applied`` is set. So a program
that waits for one device needs no poll.

The response is in the log as well, for every reader. The ``202`` still means that the request is on disk. In these
cases the ``202`` comes at once, without a response:

- There is no async-id, or it was used before.
- Another process is the leader.
- The server needs a thread per waiting request (gunicorn, waitress).

Allowed webhook addresses
-------------------------

Webhooks are sent to public addresses and to the networks of ``--allow-callbacks-to``. The server's own machine is not
allowed by default, because a server behind a proxy has other services next to it. Only ``demo`` and ``mirror lab``
allow it. The resolved address is checked at each connection, and redirects are not followed. The reason of a failed
delivery is in the server's log only, so that an application cannot explore your network.

Changing channels without loss
------------------------------

- The log of a key starts with its first request, and keeps each notification for a day. A channel is a position in the
  log.
  Plain polls, webhooks and websockets share one position, which the server stores. Readers with ``after=`` and event
  streams have positions of their own, in any number and next to any channel. They remove nothing.
- A new webhook or websocket channel first delivers unread notifications, then new ones. An entry is unread if no
  channel has delivered it and no ``after=`` reader or event stream has received it. (``after=latest`` counts everything
  as read.) So a program that polls with ``after=`` until it registers a webhook gets each notification exactly once. A
  key that never read gets all stored notifications.
- A webhook that replaces another one continues at its position. A plain poll (without ``after=``) continues after the
  last webhook delivery or plain poll; reading with ``after=`` does not move its position.
- A key has one channel of the server at a time. A webhook or websocket channel is rejected while there is a poll
  channel, which ``DELETE /v2/notification/pull`` ends. A plain poll is rejected while there is a webhook or a websocket
  channel. Deliveries in progress when a process was killed can arrive twice, with the same ``uid``.
- A key has one open plain poll at a time. While it is open, a second one gets 409, unless the first one ends within
  moments. Two programs that take turns with plain polls share one position: each entry goes to only one of them. If
  several programs use a key, let each read with ``after=``.

Gaps
----

The log is limited in time and size (``--keep-log-seconds``, ``--keep-log-bytes``), and the oldest entries are deleted
first. A reader whose position is before the start of the stored log gets the oldest stored entries, and the numbers of
the missing ones: ``Mirror-Gap: FIRST-LAST``, a header of a poll with ``after=``. In a websocket message it is the
member ``mirror-gap``, and in an event stream the event ``gap``. ``client.events()`` in Python reports it as a
``GapWarning``. Plain polls and webhooks have no such field. To detect the loss, use ``after=``.
"""

# This package imports ``config``, the store and its imports, but neither the service nor Flask. To read it, begin with
# ``waiting`` (thousands of waiters), then ``log``, ``channels`` and ``webhooks``.
