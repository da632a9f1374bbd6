"""How a request comes in and an answer goes out.

Under uvicorn, which ``serve`` runs, ``connections`` reads a request and ``asgi_bridge`` calls the app with it. There
``admission`` decides whether it goes to its view; what the view leaves unfinished the bridge ends without a thread. Any
other WSGI server calls ``app`` itself.
"""
