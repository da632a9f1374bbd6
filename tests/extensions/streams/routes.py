"""The routes of the extension: scopes of which a key needs one, methods, paths; and a body for each that reads one."""

from mirror_server.service.keys import Scope

ACCESS = [
    ({Scope.READ, Scope.WRITE, Scope.SUBSCRIBE}, "GET", "/v2/notification/events /v2/notification/websocket-connect"),
    ({Scope.READ, Scope.WRITE, Scope.SUBSCRIBE}, "PUT GET DELETE", "/v2/notification/websocket"),
]
BODIES = {"PUT /v2/notification/websocket": {"serialization": {"type": "v2"}}}
