"""The Flask app: a plain WSGI app that any WSGI server runs.

A view that has to wait returns a :class:`~mirror_server.views.deferred.Deferred`. A server that can wait without a
thread (:mod:`mirror_server.web.bridge`) takes it by the WSGI environment; any other lets its thread wait, bounded.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from flask import Flask, Request, Response, request
from werkzeug.routing import MapAdapter
from werkzeug.wsgi import get_path_info

from mirror_sdk.wire.routes import REQUEST_ID_HEADER
from mirror_server.core.errors import ApiError
from mirror_server.hooks import SERVER, extension_of, require_distinct
from mirror_server.service.long_reads import Slots
from mirror_server.views import device_requests, devices, notifications, operation, subscriptions
from mirror_server.views.deferred import PARK, Deferred, Streamed
from mirror_server.views.requests import SERVICES, app_id, request_id
from mirror_server.views.responses import NO_SNIFF, NO_STORE, CacheableResponse, SharedResponse, error_response_to
from mirror_server.web.admission import Admission

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

    from mirror_server.server import Services

_ROUTE = "mirror.route"
_BEGAN = "mirror.began"
_SLASHES = re.compile("/{2,}")


class MirrorApp(Flask):
    """Flask, with answers that come later and with paths that end in a slash or double one.

    What is its own is hooked in where Flask lets an app do so; of Flask's own steps around a request none is replaced.

    Args:
        services: What it serves.

    Attributes:
        blocking_polls: Slots for polls and streams that each hold a thread.
        stopping: Set to have these answered as if their time were over, because the server stops.
        is_disconnected: Tells of a request that holds a thread whether its client closed the connection; a server that
            can see that replaces it.
    """

    def __init__(self, services: Services) -> None:
        super().__init__("mirror_server", static_folder=None)
        self.extensions[SERVICES] = services
        self.config["MAX_CONTENT_LENGTH"] = services.settings.max_body_bytes
        self.url_map.merge_slashes = False
        self.blocking_polls = Slots.of_polls(services.settings.max_blocking_polls, services.settings.poll_share)
        self.stopping = threading.Event()
        self.is_disconnected: Callable[[WSGIEnvironment], bool] = lambda _: False
        self._rewrite_path = services.extensions.implementations("rewrite_path")
        self._response_ready = services.extensions.implementations("response_ready")
        self._admission = Admission(services)
        self.before_request(self._let_in)
        self.after_request(self._finish)
        self.register_error_handler(Exception, lambda error: self._respond_to(error, request.environ))

    def create_url_adapter(self, request: Request | None) -> MapAdapter | None:
        """Find the route of a request by its path alone, whatever host it names."""
        # Of an upgrade that was not made Flask knows which routes are meant.
        if request is None or "HTTP_UPGRADE" in request.environ:
            return super().create_url_adapter(request)
        environ = request.environ
        return self.url_map.bind("", path_info=get_path_info(environ), default_method=environ["REQUEST_METHOD"])

    def wsgi_app(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Serve one request; trailing and doubled slashes mean the same path. Source: wire.md 0 and 9."""
        environ[_BEGAN] = time.perf_counter()
        path = _SLASHES.sub("/", environ["PATH_INFO"]).rstrip("/") or "/"
        for rewrite in self._rewrite_path:
            path = rewrite(environ, path) or path
        environ["PATH_INFO"] = path
        return super().wsgi_app(environ, start_response)

    def _let_in(self) -> Response | None:
        """Decide before each request whether it comes in; an answer stands in for that of the view."""
        asked = _asked()
        return self._admission.admit(asked, self.view_functions.get(asked.endpoint or ""))

    def _finish(self, response: Response) -> Response:
        """Finish each request; an answer that is not whole yet is handed on, or waited for."""
        asked = _asked()
        environ = asked.environ
        # A path or method that no rule has could be anything, and each a metric.
        environ[_ROUTE] = (asked.method, asked.url_rule.rule) if asked.url_rule else ("", "")
        take = environ.get(PARK, self._hold)
        while isinstance(response, (Deferred, Streamed)):
            api_error = take(response)
            if api_error is not None:
                response.close()
                response = self._respond_to(api_error, environ)
            elif isinstance(response, Streamed):
                break
            elif PARK in environ:
                return response
            else:
                response = self._blocking_response(response, environ)
        # A head alone is neither logged nor counted: the request itself will be.
        return response if response.status_code == 100 else self.finish(response, environ)

    def _respond_to(self, error: Exception, environ: WSGIEnvironment) -> Response:
        return error_response_to(error, environ, max_body_bytes=self.config["MAX_CONTENT_LENGTH"])

    def _hold(self, response: Deferred | Streamed) -> ApiError | None:
        """Take a slot for a thread, until it is closed; too many held would leave none for others."""
        if isinstance(response, Streamed):
            response.is_interrupted = self._is_over(request.environ)
        elif not response.is_poll:
            return None
        application = app_id()
        api_error = self.blocking_polls.acquire(application)
        if api_error is None:
            response.call_on_close(partial(self.blocking_polls.release, application))
        return api_error

    def _blocking_response(self, deferred: Deferred, environ: WSGIEnvironment) -> Response:
        try:
            if deferred.is_poll:
                deferred.wait(self._is_over(environ))
            else:
                deferred.wait()
            # What is not for a client that is gone is for its next poll.
            if deferred.takes and self.is_disconnected(environ):
                return Response(status=204)
            response = self.current_response(deferred, environ)
            if deferred.sent is not None:
                response.call_on_close(deferred.sent)
            return response
        finally:
            deferred.close()

    def _is_over(self, environ: WSGIEnvironment) -> Callable[[], bool]:
        """Whether nobody waits any more for the answer to a request that holds a thread."""
        return lambda: self.stopping.is_set() or self.is_disconnected(environ)

    def current_response(self, deferred: Deferred, environ: WSGIEnvironment) -> Response:
        """The answer of a parked request as it is now; it is yet to be finished.

        Its key, its route and its query were checked when it was parked. Of these only the key may have changed since,
        and only responses with data depend on it, see :class:`Deferred`.
        """
        try:
            if deferred.rechecks_key:
                self._admission.recheck_key(environ)
            return deferred.current_response()
        except Exception as error:  # whatever it is, it becomes an error body
            response = self._respond_to(error, environ)
            # The future that holds it is a variable of its traceback: garbage that Python would have to look for.
            error.__traceback__ = None
            return response

    def finish(self, response: Response, environ: WSGIEnvironment) -> Response:
        """Name the request in its response, and call the hook ``response_ready``.

        A response that others get too has these headers, so it may be finished when it is sent. A response that still
        has to be waited for is returned as it is.
        """
        if isinstance(response, Deferred):
            return response
        if not isinstance(response, SharedResponse):
            # To look for such headers first takes longer.
            response.headers.add(REQUEST_ID_HEADER, request_id(environ))
            if not isinstance(response, CacheableResponse):
                response.headers.add(*NO_STORE)
            response.headers.add(*NO_SNIFF)
        seconds = time.perf_counter() - environ[_BEGAN]
        for tell in self._response_ready:
            tell(environ, response, environ[_ROUTE], seconds)
        return response


def create_app(services: Services) -> MirrorApp:
    """The app over the parts of a server.

    Raises:
        CannotServe: Two of its routes are the same.
    """
    app = MirrorApp(services)
    for part in (devices, device_requests, subscriptions, notifications):
        app.register_blueprint(part.routes)
    for routes in chain.from_iterable(services.extensions.hook.blueprints()):
        app.register_blueprint(routes)
    for rule in app.url_map.iter_rules():
        if getattr(app.view_functions[rule.endpoint], "without_head", False):
            (rule.methods or set()).discard("HEAD")
    app.register_blueprint(operation.routes)
    require_distinct(_routes_of(app))
    return app


def _routes_of(app: MirrorApp) -> Iterator[tuple[str, str]]:
    """The routes of an app, without the names of their parameters, and whose they are."""
    for rule in app.url_map.iter_rules():
        name = extension_of(app.view_functions[rule.endpoint].__module__)
        path = re.sub(r"<(\w+:)?\w+>", r"<\1...>", rule.rule)
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
            kind = "websocket route" if rule.websocket else "route"
            yield f"{kind} {method} {path}", f"the extension {name}" if name else SERVER


def _asked() -> Request:
    """The request itself; the proxy looks it up at each use."""
    asked: Request = request._get_current_object()  # type: ignore[attr-defined] # a proxy has it
    return asked
