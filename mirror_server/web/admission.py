"""Admission of requests before they reach their view: authentication, scopes, backpressure and forwarding.

``service.keys`` authenticates the key. It also counts wrong keys and rejects a client that sends too many of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from flask import Request, Response, g

from mirror_server.core.errors import ApiError
from mirror_server.service.keys import Authenticator, Identity, Scope
from mirror_server.views.requests import CALLER, Caller, LeaderOnly, add_log_details, check_query, require_scope

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

    from mirror_server.server import Services

T = TypeVar("T")

REJECTED = "mirror.refused"
"""The key in the WSGI environment for the ApiError of a request that did not arrive completely."""

HEAD_ONLY = "mirror.head_only"
"""The key in the WSGI environment that marks a request whose body has not arrived yet.

The app responds to it with status 100, which permits the client to send the body.
"""

IS_FULL = "mirror.is_full"
"""The key in the WSGI environment for a function that returns whether an application has too many unread responses."""

ONCE = "mirror.once"
"""The key in the WSGI environment for a function that caches the result of another function under a name.

It calls the other function at most once for all requests that arrived in the same turn of the event loop.
"""

_IDENTITY = "mirror.identity"
"""The key in the WSGI environment for the :class:`Identity` of the client."""

_VERSION = "version"
_READ_AGAIN_SECONDS = 1
_OPERATOR_ONLY = frozenset({Scope.ADMIN})
"""The scopes of a key that cannot read notifications. The server stores no notifications for such a key."""


class Admission:
    """The part of the app that authenticates requests and checks whether their key may make them."""

    def __init__(self, services: Services) -> None:
        self._database = services.database
        self._log = services.log
        self._forward = services.coordinator.forward
        self._authenticator = Authenticator(services.database, services.settings.failed_keys_per_minute)
        self._hook = services.extensions.hook

    def admit(self, request: Request, view: Callable[..., Any] | None) -> Response | None:
        """Check that the key of a request has a scope for this route. An unknown route also needs a key.

        Return ``None`` to call the view, or a response to send instead. This response has status 100 if the body has
        not arrived yet. If this process cannot serve the request, it is the response of the leader.

        Raises:
            ApiError: The request is not admitted (400, 401, 403, 429), or it did not arrive completely.
        """
        environ = request.environ
        rejected: ApiError | None = environ.get(REJECTED)
        if rejected is not None:
            raise rejected
        scopes = getattr(view, "required_scopes", None)
        if scopes is not None and not scopes:
            return None
        application, key_scopes = self._identify(environ)
        if scopes is not None:
            require_scope(key_scopes, *scopes)
        is_full: Callable[[str], bool] | None = environ.get(IS_FULL)
        if is_full is not None and is_full(application):
            raise _too_many_unread_responses()
        if environ.get("QUERY_STRING") and view is not None:
            check_query(view.__dict__["known_query"])
        # The checks above need no body. So the server reads a body only from clients that may send it.
        if HEAD_ONLY in environ:
            return Response(status=100)
        if key_scopes != _OPERATOR_ONLY:
            self._log.ensure_log(application)
        return None if self._forward is None else self._forwarded(request, view, self._forward)

    def _identify(self, environ: WSGIEnvironment) -> tuple[str, frozenset[Scope]]:
        """Return the application of a request and the scopes of its key, and store both for the view."""
        version = _once(environ, _VERSION, self._database.version)
        caller: Caller | None = environ.get(CALLER)
        if caller is not None:
            # The process that forwarded the request has already authenticated it. It sends only the hash of the secret.
            secret_hash = bytes.fromhex(caller.secret_hash)
            identity = Identity(caller.app_id, frozenset(map(Scope, caller.scopes)), secret_hash)
        else:
            client = partial(self._client_of, environ)
            identity = self._authenticator.authenticate(environ.get("HTTP_AUTHORIZATION"), client, version)
        environ[_IDENTITY] = identity
        g.app_id, g.scopes, g.secret_hash = identity
        g.version = version
        g.still_admits = partial(self._authenticator.still_admits, identity)
        add_log_details(environ, application=identity.app_id)
        return identity.app_id, identity.scopes

    def _client_of(self, environ: WSGIEnvironment) -> str:
        client: str | None = self._hook.client_of(environ=environ)
        return environ.get("REMOTE_ADDR", "") if client is None else client

    def recheck_key(self, environ: WSGIEnvironment) -> None:
        """Check that the key of a deferred request is still valid.

        Raises:
            ApiError: The key has expired or was revoked in the meantime (401).
        """
        identity: Identity = environ[_IDENTITY]
        stored = _once(environ, identity.app_id, partial(self._authenticator.find, identity.app_id))
        if not self._authenticator.is_valid(identity, stored):
            message = (
                "this access key expired or was revoked while the request waited; send it again with the renewed key,"
                " or with a new key, which an operator creates with 'mirror-server keys create NAME'"
            )
            raise ApiError(401, message)

    @staticmethod
    def _forwarded(request: Request, view: Callable[..., Any] | None, forward: Callable[..., Any]) -> Response | None:
        """Return the response of the leader, or ``None`` if this process can serve the view itself."""
        mark: LeaderOnly | None = getattr(view, "leader_only", None)
        if mark is None or mark.unless in request.args:
            return None
        response: Response | None = forward(request.environ, is_poll=mark.is_poll)
        return response


def _once(environ: WSGIEnvironment, name: str, query: Callable[[], T]) -> T:
    """Return the result of a query, which is made once for all requests of one turn of the event loop."""
    once: Callable[[str, Callable[[], T]], T] | None = environ.get(ONCE)
    return query() if once is None else once(name, query)


def _too_many_unread_responses() -> ApiError:
    message = "this key has too many unread responses; read those first, or close their connections"
    return ApiError(429, message, reason="TOO_MUCH_UNREAD", retry_after_seconds=_READ_AGAIN_SECONDS)
