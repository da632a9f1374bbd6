"""The server under gunicorn, waitress or any WSGI server with threads, configured by environment variables.

With gunicorn or with waitress::

    MIRROR_DATABASE=sqlite:///mirror.db gunicorn --threads 16 'mirror_server.extensions.wsgi.app:create()'
    MIRROR_DATABASE=sqlite:///mirror.db waitress-serve --threads 16 --call mirror_server.extensions.wsgi.app:create

On a database file run one process. On PostgreSQL several workers are possible (``gunicorn --workers 4``). The app has
to be made in the process that serves: gunicorn's ``--preload`` is rejected, because threads do not survive its fork.

Polls and websockets
--------------------

``mirror-server run`` keeps open polls and event streams on its event loop, limited by ``--max-parked-polls``. Under any
other WSGI server each of them takes a thread, so only ``MIRROR_MAX_BLOCKING_POLLS`` (8) can be open at once. One more
gets ``429``; all other requests are served. Set that number below the number of threads. gunicorn and waitress detect
when a client disconnects, which frees its thread.

Only ``mirror-server run`` serves websockets. Here a websocket gets ``426``, and a websocket channel is rejected because
no client could open it. On PostgreSQL the channel is accepted: a process of ``mirror-server run`` on the same database
can open it.

Limits and proxies
------------------

The WSGI server and the proxy in front limit connections and heads. Under gunicorn, each incomplete
request body holds a thread, even without a key. Put a proxy in front that buffers requests (nginx does,
``proxy_request_buffering on``). ``MIRROR_TRUST_PROXY`` applies here too; waitress forwards the header only with
``--no-clear-untrusted-proxy-headers``.
"""

from __future__ import annotations

from mirror_server.hooks import extends


@extends
def help_topics() -> dict[str, str]:
    """Return the help about gunicorn and waitress."""
    return {"wsgi": __name__}
