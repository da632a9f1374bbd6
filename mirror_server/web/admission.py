"""Decides before a request goes to its view who sends it, whether that key may, and which process answers."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any

from flask import Request, Response, g

from mirror_server.core.errors import ApiError
from mirror_server.service.keys import Authenticator, Scope
from mirror_server.views.requests import CALLER, Caller, LeaderOnly, check_query, note, require_scope

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

    from mirror_server.server import Services

REJECTED = "mirror.refused"
"""Key of the WSGI environment with the ApiError of a request that did not arrive as it should."""

HEAD_ONLY = "mirror.head_only"
"""Key of the WSGI environment of a request whose body is on its way: who may send it is told by the status 100."""

IS_FULL = "mirror.is_full"
"""Key of the WSGI environment with a function that tells whether an application leaves too many answers unread."""

ONCE = "mirror.once"
"""Key of the WSGI environment with a function that calls another, unless that was called since this request came."""

_READ_AGAIN_SECONDS = 1
_OPERATOR_ONLY = frozenset({Scope.ADMIN})
"""The scopes of a key with which nobody reads notifications, so that none are kept."""


class Admission:
    """Lets requests in."""

    def __init__(self, services: Services) -> None:
        self._database = services.database
        self._log = services.log
        self._forward = services.coordinator.forward
        self._authenticator = Authenticator(services.database, services.settings.failed_keys_per_minute)
        self._hook = services.extensions.hook

    def admit(self, asked: Request, view: Callable[..., Any] | None) -> Response | None:
        """Let in who has a key with a scope for this route; an unknown route wants a key too.

        Gives the answer where the view is not to give it: to a head whose body is on its way, and to what only another
        process can answer, which is forwarded to it.

        Raises:
            ApiError: It is not let in (400, 401, 403, 429), or did not arrive as it should.
        """
        environ = asked.environ
        refused: ApiError | None = environ.get(REJECTED)
        if refused is not None:
            raise refused
        scopes = getattr(view, "required_scopes", None)
        if scopes is not None and not scopes:
            return None
        application, held = self._identify(environ)
        if scopes is not None:
            require_scope(held, *scopes)
        is_full: Callable[[str], bool] | None = environ.get(IS_FULL)
        if is_full is not None and is_full(application):
            raise _too_much_unread()
        if environ.get("QUERY_STRING") and view is not None:
            check_query(view.__dict__["known_query"])
        if HEAD_ONLY in environ:
            return Response(status=100)
        if held != _OPERATOR_ONLY:
            self._log.ensure_log(application)
        return None if self._forward is None else self._forwarded(asked, view, self._forward)

    def _identify(self, environ: WSGIEnvironment) -> tuple[str, frozenset[Scope]]:
        """The application that asks and the scopes of its key, which are kept for the view too."""
        version = self._version(environ)
        caller: Caller | None = environ.get(CALLER)
        if caller is not None:
            application, held = caller.app_id, frozenset(map(Scope, caller.scopes))
        else:
            authorization = environ.get("HTTP_AUTHORIZATION")
            client = partial(self._client_of, environ)
            application, held = self._authenticator.authenticate(authorization, client, version)
            g.still_admits = partial(self._authenticator.still_admits, authorization)
        g.app_id, g.scopes, g.version = application, held, version
        note(environ, application=application)
        return application, held

    def _client_of(self, environ: WSGIEnvironment) -> str:
        client: str | None = self._hook.client_of(environ=environ)
        return environ.get("REMOTE_ADDR", "") if client is None else client

    def recheck_key(self, environ: WSGIEnvironment) -> None:
        """Check that the key of a request that was admitted and held is still valid.

        Raises:
            ApiError: It expired or was revoked meanwhile (401).
        """
        caller: Caller | None = environ.get(CALLER)
        version = self._version(environ)
        if caller is None:
            is_valid = self._authenticator.still_admits(environ.get("HTTP_AUTHORIZATION"), version)
        else:
            is_valid = self._authenticator.is_valid(caller.app_id, bytes.fromhex(caller.secret_hash), version)
        if not is_valid:
            message = (
                "this access key expired or was revoked while the request was held; send it again with the renewed key,"
                " or have an operator make one with 'mirror-server keys create NAME'"
            )
            raise ApiError(401, message)

    def _version(self, environ: WSGIEnvironment) -> Hashable:
        """That of the database; read once for all requests that are handled in one turn of the event loop."""
        once: Callable[[Callable[[], Hashable]], Hashable] | None = environ.get(ONCE)
        return self._database.version() if once is None else once(self._database.version)

    @staticmethod
    def _forwarded(asked: Request, view: Callable[..., Any] | None, forward: Callable[..., Any]) -> Response | None:
        """The leader's answer, where it alone can give it and this process does not lead."""
        mark: LeaderOnly | None = getattr(view, "leader_only", None)
        if mark is None or mark.unless in asked.args:
            return None
        response: Response | None = forward(asked.environ, is_poll=mark.is_poll)
        return response


def _too_much_unread() -> ApiError:
    message = "answers wait for this key to read them; read those first, or close their connections"
    return ApiError(429, message, reason="TOO_MUCH_UNREAD", retry_after_seconds=_READ_AGAIN_SECONDS)
