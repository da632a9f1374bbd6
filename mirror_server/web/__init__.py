"""How a request comes in and an answer goes out.

``serve`` runs uvicorn, which has ``bridge`` call the app with a request, in the terms of ``asgi``. In ``app``, which is
Flask, ``admission`` decides whether the request goes to its view; what the view leaves unfinished the bridge ends
without a thread. ``shares`` divides the time of the event loop between keys. Any other WSGI server calls ``app``
itself. It imports all but ``cli``. Begin with ``app``.
"""
