"""The notification log and its ways out: what an application is told, by polls and webhooks.

Each application has one log. Notifications reach it by long polling, or by a webhook
(``PUT /v2/notification/callback``): one message at a time, in order, again after 1, 2, 4 ... 120 seconds when the URL
fails, and for 24 hours of failures at most; ``GET /v2/notification/channel`` shows how it stands. A websocket or an
event stream is another way: ``mirror-server help streams``.

An answer with its request
--------------------------

``POST /v2/device-requests/{id}?async-id=ID`` with ``Prefer: wait=SECONDS`` (RFC 7240), an extension, holds its ``202``
back until the device has answered, for 10 seconds at most; the body has the answer then as ``async-response``, as a
poll with ``after`` tells it, and ``Preference-Applied`` stands in the head. So who waits for one device needs no poll.
The answer is in the log all the same, for every reader, and the ``202`` still means that the request is on disk. It
comes at once, without an answer, where there is no async-id or it was used before, where another process leads, and
under servers that need a thread for whoever waits (gunicorn, waitress).

Where webhooks may lead
-----------------------

To public addresses and to the networks you name with ``--allow-callbacks-to``; the server's own machine is no
exception, since a server behind a proxy has other services beside it. Only ``demo`` and ``mirror lab`` name it
themselves. What a name resolves to is checked at each connection, and redirects are not followed. Why a URL did not
answer stands in the server's log; an application is not told, so that it cannot explore your network.

A program that changes channels loses nothing
---------------------------------------------

- The notifications of a key are kept in its log from its first request on, for a day; a channel is a position in it.
  Plain polls, webhooks and websockets share one position, which the server keeps. A reader with ``after=`` and an event
  stream have their own, in any number beside any channel, and remove nothing.
- A new webhook or websocket channel gets what happens from its registration on. Before that comes what is kept and
  nobody with that key has read: what stands behind the last plain poll, webhook or websocket, and behind what readers
  with ``after=`` and event streams were given (``after=latest`` passes over all that is there). So a program that read
  with ``after=`` until it registers gets each notification once, and a key that never read gets all that was kept for
  it.
- A webhook that replaces another goes on where that one was. A plain poll goes on behind what the last webhook took or
  the last plain poll was given; reading with ``after=`` does not move it.
- A key has one channel of the server at a time: a webhook or a websocket channel is refused while there is a poll
  channel (``DELETE /v2/notification/pull`` ends it), a plain poll while there is one of these. What was under way when
  a process was killed may come twice, with the same ``uid``.

Source: specification E4, E5; wire.md 4 and 5.
"""

# This package imports ``config``, the store and what is below it, and neither the service nor Flask. To read it begin
# with ``waiting``, how thousands wait for more, then ``log``, ``channels`` and ``webhooks``.
