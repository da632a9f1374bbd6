"""The routes of the extension: the scopes of which a key needs one, methods, paths."""

from mirror_server.service.keys import Scope

ACCESS = [
    ({Scope.READ, Scope.WRITE, Scope.SUBSCRIBE, Scope.ADMIN}, "GET", "/rest-versions"),
    ({Scope.READ, Scope.WRITE, Scope.SUBSCRIBE}, "GET", "/v2/limits"),
    ({Scope.READ}, "GET", "/v2/endpoints /v2/endpoints/{}/{}"),
    ({Scope.WRITE}, "PUT POST DELETE", "/v2/endpoints/{}/{}"),
]
