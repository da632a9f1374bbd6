"""The HTTP interface: each view reads a request, calls one operation of ``service`` or ``notifications``, and responds.

``requests`` parses requests, ``responses`` builds responses, and ``serialize`` turns rows into JSON. Deferred and
streamed responses are in ``deferred_responses``. Each of the other modules has the routes of one blueprint. Start with
``devices``. Only this package and ``web`` import Flask. This package may import all others except ``web`` and ``cli``.
It contains no SQL.
"""
