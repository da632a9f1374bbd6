"""The routes of the extension: scopes of which a key needs one, methods, paths; and a body for each that reads one."""

from mirror_server.service.keys import Scope

ACCESS = [
    ({Scope.READ, Scope.WRITE}, "GET", "/v2/device-requests /v2/device-requests/{}"),
    ({Scope.WRITE}, "POST", "/v3/devices/{}/echo/acknowledgements"),
]
BODIES = {"POST /v3/devices/{device}/echo/acknowledgements": {"resource_path": "/3303/0/5700"}}
