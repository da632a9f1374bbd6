"""The interface: each view reads a request, calls one operation of ``service`` or ``notifications``, and responds.

``requests`` reads and ``answers`` responds, with what ``serialize`` makes of rows; a response that has to wait is
``deferred``, a large one is ``streamed``. The other modules are the routes, one blueprint each: begin with ``devices``.
Flask is known here and in ``web`` alone. It imports all but ``web`` and ``cli``, and no SQL.
"""
