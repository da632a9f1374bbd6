"""The web layer, which receives requests and sends responses.

``serve`` runs uvicorn. Uvicorn calls ``asgi_bridge`` with each request, and the bridge calls the Flask app in
``flask_app``. ``wsgi_adapter`` converts between ASGI and WSGI. In the app, ``admission`` decides whether a request
reaches its view. If a view returns an unfinished response, the bridge completes it without blocking a thread.
``fair_scheduler`` divides the time of the event loop between access keys. Any other WSGI server calls ``flask_app``
directly. This package imports all others except ``cli``. Read ``flask_app`` first.
"""
