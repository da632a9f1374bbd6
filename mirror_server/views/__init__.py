"""The HTTP interface: its routes, the parsing of requests and the construction of responses.

Each view reads a request, calls one operation of ``service`` or ``notifications``, and responds. ``requests`` parses
requests, ``responses`` builds responses, and ``serialize`` converts rows to JSON. ``deferred_responses`` contains
deferred and streamed responses. Each of the other modules contains the routes of one blueprint. Read ``devices``
first. Only this package and ``web`` import Flask. This package may import all others except ``web`` and ``cli``. It
contains no SQL.
"""
