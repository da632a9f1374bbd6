"""The HTTP interface: each view reads a request, calls one operation of ``service`` or ``notifications``, and responds.

``requests`` parses requests, ``responses`` builds responses, and ``serialize`` turns rows into JSON. Delayed and
streamed responses are in ``deferred``. The other modules are the routes, one blueprint each: start with ``devices``.
Only this package and ``web`` import Flask. This package may import all others except ``web`` and ``cli``, and no SQL.
"""
