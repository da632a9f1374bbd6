"""The Flask app: a plain WSGI app that any WSGI server runs. Errors are shaped here, and only here.

A view that has to wait returns a :class:`~mirror_server.views.deferred.Deferred`. A server that can wait without a
thread (:mod:`mirror_server.bridge`) takes it by the WSGI environment; any other lets its thread wait, bounded.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from flask import Flask, Request, Response, g, request
from flask.sessions import NullSession, SecureCookieSession, SessionInterface, SessionMixin
from werkzeug.exceptions import HTTPException
from werkzeug.routing import MapAdapter, WebsocketMismatch
from werkzeug.wsgi import get_path_info

from mirror_sdk.wire.errors import ERROR_TYPES
from mirror_sdk.wire.routes import REQUEST_ID_HEADER
from mirror_server.config import ACCESS_LOG
from mirror_server.core.errors import Refusal
from mirror_server.keys import Gate, Scope
from mirror_server.metrics import Metrics
from mirror_server.places import Places
from mirror_server.relay import duty_changed
from mirror_server.senders import Senders
from mirror_server.store.failures import StorageFailed, TooMuchWaiting
from mirror_server.views import (
    bench,
    description,
    device_requests,
    devices,
    notifications,
    operation,
    page,
    snapshots,
    subscriptions,
)
from mirror_server.views.answers import json_answer
from mirror_server.views.client import has_left
from mirror_server.views.deferred import PARK, Deferred
from mirror_server.views.download import DOWNLOAD, Download
from mirror_server.views.duty import CALLER, is_of_duty, pass_on
from mirror_server.views.event_stream import STREAM, EventStream
from mirror_server.views.requests import app_id, check_query, note, noted, require_scope

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

    from mirror_server.services import Services

Admit = Callable[[Request, Callable[..., Any] | None], Response | None]

REFUSED = "mirror.refused"
"""Key of the WSGI environment with the Refusal of a request that did not arrive as it should."""

HEAD_ONLY = "mirror.head_only"
"""Key of the WSGI environment of a request whose body is on its way: who may send it is told by the status 100."""

IS_FULL = "mirror.is_full"
"""Key of the WSGI environment with a function that tells whether an application leaves too many answers unread."""

_log = logging.getLogger(__name__)
_access_log = logging.getLogger(ACCESS_LOG)

_REQUEST_ID = "mirror.request_id"
_REQUEST_ID_VARIABLE = f"HTTP_{REQUEST_ID_HEADER.upper().replace('-', '_')}"
_PARKED = "mirror.parked"
_READ_AGAIN_SECONDS = 1
_STORE_AGAIN_SECONDS = 5
_BEGAN = "mirror.began"
_GIVEN_REQUEST_ID = re.compile(r"[0-9a-f]{32}")
_SLASHES = re.compile("/{2,}")
_OPERATOR_ONLY = frozenset({Scope.ADMIN})
"""With these scopes nobody reads notifications, so that none are kept."""


class _NoSessions(SessionInterface):
    """The service has no sessions; Flask would make and look through an empty one at each request."""

    def open_session(self, app: Flask, request: Request) -> SecureCookieSession:  # noqa: ARG002 - Flask's signature
        """The same empty one for all."""
        return _EMPTY_SESSION

    def save_session(self, app: Flask, session: SessionMixin, response: Response) -> None:
        """There is nothing to save."""


_EMPTY_SESSION = NullSession()


class MirrorApp(Flask):
    """Flask, with answers that come later and with paths that end in a slash or double one.

    One function is called before each request and one after it. Flask's lists of such functions, for the app and for
    each blueprint, are not looked through: that alone takes a twentieth of the time of a request.

    Args:
        blocking_polls: Places for polls and streams that each hold a thread.
        metrics: Told of every answer.
        admit: Called before each request, with its view; what it gives is the answer.

    Attributes:
        refusal: The answer to every request, where there is one: of a process that cannot serve.
    """

    session_interface = _NoSessions()

    def __init__(self, blocking_polls: Places, metrics: Metrics, admit: Admit) -> None:
        super().__init__("mirror_server", static_folder=None)
        self.blocking_polls = blocking_polls
        self.metrics = metrics
        self.refusal: Refusal | None = None
        self._is_stopping = threading.Event()
        self._admit = admit

    def create_url_adapter(self, request: Request | None) -> MapAdapter | None:
        """What finds the route of a request: by its path alone, whatever host it names."""
        # Of a websocket's handshake Flask knows that no route is meant.
        if request is None or "HTTP_UPGRADE" in request.environ:
            return super().create_url_adapter(request)
        environ = request.environ
        return self.url_map.bind("", path_info=environ["PATH_INFO"], default_method=environ["REQUEST_METHOD"])

    def preprocess_request(self) -> Response | None:
        """Called by Flask before each request."""
        if self.refusal is not None:
            raise self.refusal
        asked = _asked()
        return self._admit(asked, self.view_functions.get(asked.endpoint or ""))

    def process_response(self, response: Response) -> Response:
        """Called by Flask after each request."""
        asked = _asked()
        return response if _PARKED in asked.environ else self._complete(response, asked.environ, _route(asked))

    def do_teardown_request(self, *_: object) -> None:
        """Called by Flask at the end of each request: nothing is left to do."""

    def do_teardown_appcontext(self, *_: object) -> None:
        """Called by Flask at the end of each request: nothing is left to do."""

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """No view is a coroutine, so that Flask need not look at each request."""
        return func

    def wsgi_app(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Serve one request; trailing and doubled slashes mean the same path. Source: wire.md 0."""
        environ[_BEGAN] = time.perf_counter()
        path = _SLASHES.sub("/", environ["PATH_INFO"])
        environ["PATH_INFO"] = path.rstrip("/") or "/"
        return super().wsgi_app(environ, start_response)

    def make_response(self, rv: Any) -> Response:
        """Also takes a :class:`Deferred`, an :class:`EventStream` and a :class:`Download`."""
        if isinstance(rv, Download):
            return self._send(rv)
        if isinstance(rv, EventStream):
            return self._begin(rv)
        if isinstance(rv, Deferred):
            return self._park(rv)
        return super().make_response(rv)

    def _begin(self, stream: EventStream) -> Response:
        take: Callable[[EventStream], Refusal | None] | None = request.environ.get(STREAM)
        refusal = self._hold(stream) if take is None else take(stream)
        stream.end_when(self._is_over(request.environ))
        return stream if refusal is None else _answer_refusal(refusal)

    def _hold(self, response: Response) -> Refusal | None:
        """Take a place for a thread, until the answer is sent; what is given says why there is none."""
        application = app_id()
        refusal = self.blocking_polls.take(application)
        if refusal is None:
            response.call_on_close(partial(self.blocking_polls.give_back, application))
        return refusal

    def _send(self, download: Download) -> Response:
        take: Callable[[Download], None] | None = request.environ.get(DOWNLOAD)
        if take is not None:
            take(download)
            return download
        refusal = self._hold(download)
        if refusal is None:
            return download
        download.close()
        return _answer_refusal(refusal)

    def _park(self, deferred: Deferred) -> Response:
        park: Callable[[Deferred], Refusal | None] | None = request.environ.get(PARK)
        if park is None:
            return self._wait(deferred)
        refusal = park(deferred)
        if refusal is not None:
            deferred.release()
            return _answer_refusal(refusal)
        request.environ[_PARKED] = _route(_asked())
        return deferred

    def _wait(self, deferred: Deferred) -> Response:
        """Let this thread wait, unless too many do so that others would be served by none."""
        if not deferred.is_poll:
            return self._blocking_answer(deferred)
        application = app_id()
        refusal = self.blocking_polls.take(application)
        if refusal is not None:
            deferred.release()
            return _answer_refusal(refusal)
        try:
            return self._blocking_answer(deferred)
        finally:
            self.blocking_polls.give_back(application)

    def _blocking_answer(self, deferred: Deferred) -> Response:
        environ = request.environ
        try:
            if deferred.is_poll:
                deferred.wait(self._is_over(environ))
            else:
                deferred.wait()
            # What is not for a client that is gone is for its next poll.
            return Response(status=204) if deferred.takes and has_left(environ) else self._answer(deferred)
        finally:
            deferred.release()

    def stop_waiting(self) -> None:
        """Have the polls and streams that hold threads answered, as if their time were over."""
        self._is_stopping.set()

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to."""
        return self._is_stopping.is_set()

    def _is_over(self, environ: WSGIEnvironment) -> Callable[[], bool]:
        """Whether nobody waits any more for the answer to a request that holds a thread."""
        return lambda: self.is_stopping or has_left(environ)

    def finish(self, deferred: Deferred, environ: WSGIEnvironment) -> Response:
        """The answer of a parked request, with the headers of any other.

        Its key, its route and its query were seen to when it was parked. That is not done a second time, which for
        thousands of polls that one event wakes would take longer than to answer them.
        """
        route = environ.pop(_PARKED)
        try:
            response = deferred.answer()
        except Exception as error:  # whatever it is, it becomes an error body
            with self.request_context(environ):
                return self.finalize_request(self.handle_user_exception(error))
        return self._complete(response, environ, route)

    def _complete(self, response: Response, environ: WSGIEnvironment, route: tuple[str, str]) -> Response:
        """Name the request in its answer and in the log. The query is left out: it may hold what nobody should read."""
        response.headers[REQUEST_ID_HEADER] = _request_id(environ)
        # Values may be personal data: nobody on the way keeps them. To look for them first takes longer.
        if not isinstance(response, page.PageFile):
            response.headers.add("Cache-Control", "no-store")
        response.headers.add("X-Content-Type-Options", "nosniff")
        seconds = time.perf_counter() - environ[_BEGAN]
        self.metrics.answered(*route, response.status_code, seconds)
        if _access_log.isEnabledFor(logging.INFO):
            _access_log.info("request", extra=_line(response, environ, seconds))
        return response

    def _answer(self, deferred: Deferred) -> Response:
        try:
            return deferred.answer()
        except Exception as error:  # whatever it is, it becomes an error body
            return self.make_response(self.handle_user_exception(error))


def create_app(services: Services) -> MirrorApp:
    """The app over the parts of a server."""
    metrics = Metrics(services.database, services.log, services.is_on_duty)
    gate = Gate(services.database, services.settings.failed_keys_per_minute)
    settings = services.settings
    blocking_polls = Places.of_polls(settings.max_blocking_polls, settings.poll_share)
    senders = Senders(settings.trusted_proxies)
    app = MirrorApp(blocking_polls, metrics, partial(_admit, services, gate, senders))
    app.config["MAX_CONTENT_LENGTH"] = settings.max_body_bytes
    app.url_map.merge_slashes = False
    app.register_blueprint(page.blueprint())
    app.register_blueprint(devices.blueprint(services.devices, services.clock))
    app.register_blueprint(snapshots.blueprint(services.snapshots))
    app.register_blueprint(device_requests.blueprint(services.commands))
    app.register_blueprint(subscriptions.blueprint(services.subscriptions))
    app.register_blueprint(notifications.blueprint(services.log, services.polls, services.webhooks))
    app.register_blueprint(bench.blueprint(services.bench))
    app.register_blueprint(description.blueprint(has_bench=services.bench is not None))
    for rule in app.url_map.iter_rules():
        if getattr(app.view_functions[rule.endpoint], "without_head", False):
            (rule.methods or set()).discard("HEAD")
    app.register_blueprint(operation.blueprint(services.database, metrics))
    app.register_error_handler(Refusal, _answer_refusal)
    app.register_error_handler(StorageFailed, _answer_storage_failure)
    app.register_error_handler(TooMuchWaiting, _answer_too_much)
    app.register_error_handler(HTTPException, _answer_http_error)
    app.register_error_handler(Exception, _answer_failure)
    return app


def _too_much_unread() -> Refusal:
    message = "answers wait for this key to read them; read those first, or close their connections"
    return Refusal(429, message, reason="TOO_MUCH_UNREAD", retry_after_seconds=_READ_AGAIN_SECONDS)


def _admit(
    services: Services, gate: Gate, senders: Senders, asked: Request, view: Callable[..., Any] | None
) -> Response | None:
    """Let in who has a key with a scope for this route; an unknown route wants a key too.

    What only another process can answer is passed on to it.
    """
    refused: Refusal | None = asked.environ.get(REFUSED)
    if refused is not None:
        raise refused
    scopes = getattr(view, "required_scopes", None)
    if scopes is not None and not scopes:
        return None
    g.version = services.database.version()
    caller = asked.environ.get(CALLER)
    if caller is not None:
        application, g.scopes = caller.app_id, frozenset(map(Scope, caller.scopes))
    else:
        sender = partial(senders.sender_of, asked.environ)
        authorization = asked.environ.get("HTTP_AUTHORIZATION")
        application, g.scopes = gate.authenticate(authorization, sender, g.version)
        g.still_admits = partial(gate.still_admits, authorization)
    g.app_id = application
    note(asked.environ, application=application)
    if scopes is not None:
        require_scope(*scopes)
    is_full: Callable[[str], bool] | None = asked.environ.get(IS_FULL)
    if is_full is not None and is_full(application):
        raise _too_much_unread()
    if asked.environ.get("QUERY_STRING") and view is not None:
        check_query(view.__dict__["known_query"])
    if HEAD_ONLY in asked.environ:
        # Neither logged nor counted: the request itself will be.
        asked.environ[_PARKED] = _route(asked)
        return Response(status=100)
    if g.scopes != _OPERATOR_ONLY:
        services.log.keep_for(application)
    if services.relay is None or not services.relay.is_needed or not is_of_duty():
        return None
    if caller is not None:
        raise duty_changed()
    return pass_on(services.relay, _request_id(asked.environ))


def _asked() -> Request:
    """The request itself; the proxy looks it up at each use."""
    asked: Request = request._get_current_object()  # type: ignore[attr-defined] # a proxy has it
    return asked


def _route(asked: Request) -> tuple[str, str]:
    """Method and rule of a request; a path or method that no rule has could be anything, and each a metric."""
    return (asked.method, asked.url_rule.rule) if asked.url_rule else ("", "")


def _request_id(environ: WSGIEnvironment) -> str:
    """One id for the request, the client's own if it gave one of our form."""
    if _REQUEST_ID not in environ:
        given = environ.get(_REQUEST_ID_VARIABLE, "")
        environ[_REQUEST_ID] = given if _GIVEN_REQUEST_ID.fullmatch(given) else os.urandom(16).hex()
    identity: str = environ[_REQUEST_ID]
    return identity


def _line(response: Response, environ: WSGIEnvironment, seconds: float) -> dict[str, Any]:
    return {
        "method": environ["REQUEST_METHOD"],
        "path": get_path_info(environ),
        "status": response.status_code,
        "duration_ms": round(seconds * 1000, 2),
        "request_id": _request_id(environ),
        **noted(environ),
    }


def _answer_refusal(refusal: Refusal) -> Response:
    kind = "validation_error" if refusal.fields and refusal.code == 400 else ERROR_TYPES[refusal.code]
    body: dict[str, Any] = {
        "object": "error",
        "code": refusal.code,
        "type": kind,
        "message": refusal.message,
        "fields": [{"name": name, "message": message} for name, message in refusal.fields],
        "request_id": _request_id(request.environ),
    }
    if refusal.reason is not None:
        body["reason"] = refusal.reason
    response = json_answer(body, refusal.code)
    if refusal.code == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if refusal.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(refusal.retry_after_seconds)
    return response


def _answer_http_error(error: HTTPException) -> Response:
    response = _answer_refusal(_refusal_of(error))
    for name, value in error.get_headers(request.environ):
        if name == "Allow":
            response.headers[name] = value
    return response


def _refusal_of(error: HTTPException) -> Refusal:
    if error.code == 404:
        return Refusal(404, f"there is no {request.path} here; check the path")
    if error.code == 405:
        return Refusal(405, f"{request.method} is not available for {request.path}; see the header Allow")
    if error.code == 413:
        limit = request.max_content_length
        return Refusal(413, f"the body is larger than {limit} bytes; send less at a time")
    if isinstance(error, WebsocketMismatch):
        return Refusal(400, "websockets are not spoken here; GET /v2/notification/events sends events as they come")
    code = error.code if error.code in ERROR_TYPES else 400
    return Refusal(code, error.description or error.name)


def _answer_storage_failure(failure: StorageFailed) -> Response:
    message = f"the server {failure}; nothing was changed, so try again later; the operator finds the cause in the log"
    return _answer_refusal(Refusal(503, message, reason="STORAGE_FAILED", retry_after_seconds=_STORE_AGAIN_SECONDS))


def _answer_too_much(failure: TooMuchWaiting) -> Response:
    message = f"{failure}; nothing was changed, so try again in a moment"
    return _answer_refusal(Refusal(429, message, reason="TOO_MUCH_WAITING", retry_after_seconds=1))


def _answer_failure(error: Exception) -> Response:
    _log.error("request failed", extra={"request_id": _request_id(request.environ)}, exc_info=error)
    return _answer_refusal(
        Refusal(500, "the server failed; try again, and give the operator the request id if it fails again")
    )
