"""One blueprint for each part of the interface.

A view reads the request, calls one operation of :func:`~mirror_server.views.requests.services`, presents its result.
"""
