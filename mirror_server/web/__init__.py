"""The web layer: receives requests and sends responses.

``serve`` runs uvicorn. Uvicorn calls ``bridge`` with each request, and the bridge calls the Flask app in ``app``;
``asgi`` converts between ASGI and WSGI. In the app, ``admission`` decides whether a request reaches its view. If a view
returns an unfinished response, the bridge completes it without a thread. ``shares`` divides the time of the event loop
between access keys. Any other WSGI server calls ``app`` directly. This package imports all others except ``cli``. Start
reading at ``app``.
"""
