"""The interface: each view reads a request, calls one operation of ``service`` or ``notifications``, and responds.

``requests`` reads and ``answers`` responds, with what ``serialize`` makes of rows; a response that has to wait, or
that is sent part by part, is in ``deferred``. The other modules are the routes, one blueprint each: begin with
``devices``.
Flask is known here and in ``web`` alone. It imports all but ``web`` and ``cli``, and no SQL.
"""
