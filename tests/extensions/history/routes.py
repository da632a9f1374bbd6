"""The routes of the extension: the scopes of which a key needs one, methods, paths."""

from mirror_server.service.keys import Scope

ACCESS = [({Scope.READ}, "GET", "/v3/device-echo/history")]
