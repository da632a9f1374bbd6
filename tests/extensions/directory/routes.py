"""The routes of the extension: scopes of which a key needs one, methods, paths; and a body for each that reads one."""

from mirror_server.service.keys import Scope

ACCESS = [
    ({Scope.READ}, "GET", "/v3/devices/{}/connection /v3/devices/{}/contacts"),
    ({Scope.READ}, "GET", "/v3/device-queries /v3/device-queries/{}"),
    ({Scope.READ}, "GET", "/v3/device-events /v3/device-events/{} /v3/devicelog /v3/devicelog/{}"),
    ({Scope.WRITE}, "PUT PATCH", "/v3/devices/{} /v3/device-queries/{}"),
    ({Scope.WRITE}, "POST", "/v3/device-queries"),
    ({Scope.WRITE}, "DELETE", "/v3/device-queries/{}"),
]
QUERY = {"name": "reachable", "query": "state__eq=registered"}
BODIES = {
    "PUT /v3/devices/{device}": {"name": "lamp"},
    "PATCH /v3/devices/{device}": {"name": "lamp"},
    "POST /v3/device-queries": {**QUERY, "name": "lamps"},
    "PUT /v3/device-queries/{query}": QUERY,
    "PATCH /v3/device-queries/{query}": QUERY,
}
