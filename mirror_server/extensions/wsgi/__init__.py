"""The server under any WSGI server with threads, configured by the environment.

With gunicorn or with waitress::

    MIRROR_DATABASE=sqlite:///mirror.db gunicorn --threads 16 'mirror_server.extensions.wsgi.app:create()'
    MIRROR_DATABASE=sqlite:///mirror.db waitress-serve --threads 16 --call mirror_server.extensions.wsgi.app:create

``mirror-server run`` parks held polls and event streams on its event loop; ``--max-parked-polls`` is the limit. Under
any other WSGI server each of them takes a thread, so only ``MIRROR_MAX_BLOCKING_POLLS`` (8) may be open at once; one
more is told ``429``, and everything else is answered. Keep that number below the threads. gunicorn and waitress show
when a client hangs up, which frees its thread. Websockets are those of ``mirror-server run`` alone: here one is told
``426``, and a websocket channel, which nobody could open, is refused. On PostgreSQL it is taken: a process of
``mirror-server run`` on the same database may open it.

On a database file run one process; on PostgreSQL there may be several workers (``gunicorn --workers 4``). The app is
made in the process that serves: gunicorn's ``--preload`` is refused, as threads do not survive its fork.

Limits of connections and heads are those of the WSGI server and of the proxy in front. Under gunicorn each body that
does not end holds a thread, without a key too: put a proxy in front that buffers requests (nginx does,
``proxy_request_buffering on``). Behind a proxy ``MIRROR_TRUST_PROXY`` holds here too; waitress hands the header on only
with ``--no-clear-untrusted-proxy-headers``.
"""

from __future__ import annotations

from mirror_server.hooks import extends


@extends
def help_topics() -> dict[str, str]:
    """How to serve with gunicorn or waitress, and what differs there."""
    return {"wsgi": __name__}
