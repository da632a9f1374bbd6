"""The Flask app, which is a plain WSGI app that any WSGI server can run.

A view that has to wait returns a :class:`~mirror_server.views.deferred_responses.DeferredResponse`. The server of this
project (:mod:`mirror_server.web.asgi_bridge`) waits without blocking a thread. It accepts the response through a
function in the WSGI environment. On any other server the request blocks its thread, up to a time limit.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from flask import Flask, Request, Response, request
from werkzeug.routing import MapAdapter, Rule
from werkzeug.wsgi import get_path_info

from mirror_sdk.wire.routes import REQUEST_ID_HEADER
from mirror_server.core.errors import ApiError
from mirror_server.hooks import SERVER, extension_of, require_distinct
from mirror_server.service.slow_reads import Slots
from mirror_server.views import device_requests, devices, notifications, operation, subscriptions
from mirror_server.views.deferred_responses import DEFER, DeferredResponse, StreamedResponse
from mirror_server.views.requests import SERVICES, app_id, request_id
from mirror_server.views.responses import NO_SNIFF, NO_STORE, CacheableResponse, SharedResponse, error_response_to
from mirror_server.web.admission import Admission

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

    from mirror_server.server import Services

_ROUTE = "mirror.route"
_BEGAN = "mirror.began"
_SLASHES = re.compile("/{2,}")


class _Route(Rule):
    """A route that is compiled for building URLs only when a URL is built. The server itself builds none."""

    def _compile_builder(self, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
        compiled = cache(super()._compile_builder)

        def build(rule: Rule, **values: Any) -> tuple[str, str]:
            return compiled(append_unknown)(rule, **values)

        return build


class MirrorApp(Flask):
    """A Flask app with deferred responses. It ignores trailing and repeated slashes in paths.

    All additions use hooks of Flask.

    Args:
        services: The services that the views use.

    Attributes:
        blocking_polls: The slots for polls and streams that each block a thread.
        stopping: An event that is set when the server stops, to end these polls and streams early.
        is_disconnected: A function that returns whether the client of a request that blocks a thread has disconnected.
            A server that can detect this replaces the function.
    """

    url_rule_class = _Route

    def __init__(self, services: Services) -> None:
        super().__init__("mirror_server", static_folder=None)
        self.extensions[SERVICES] = services
        self.config["MAX_CONTENT_LENGTH"] = services.settings.max_body_bytes
        # Werkzeug would redirect such a request. Instead, :meth:`wsgi_app` changes the path.
        self.url_map.merge_slashes = False
        self.blocking_polls = Slots.of_polls(services.settings.max_blocking_polls, services.settings.poll_share)
        self.stopping = threading.Event()
        self.is_disconnected: Callable[[WSGIEnvironment], bool] = lambda _: False
        self._rewrite_path = services.extensions.implementations("rewrite_path")
        self._response_ready = services.extensions.implementations("response_ready")
        self._admission = Admission(services)
        self.before_request(self._admit)
        self.after_request(self._finish)
        self.register_error_handler(Exception, lambda error: self._respond_to(error, request.environ))

    def create_url_adapter(self, request: Request | None) -> MapAdapter | None:
        """Find the route of a request only by its path. The host is ignored."""
        # For a websocket upgrade, only Flask's own adapter finds the route.
        if request is None or "HTTP_UPGRADE" in request.environ:
            return super().create_url_adapter(request)
        environ = request.environ
        return self.url_map.bind("", path_info=get_path_info(environ), default_method=environ["REQUEST_METHOD"])

    def wsgi_app(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Serve one request. Trailing and repeated slashes in the path are ignored. Source: wire.md 0 and 9."""
        environ[_BEGAN] = time.perf_counter()
        path = _SLASHES.sub("/", environ["PATH_INFO"]).rstrip("/") or "/"
        for rewrite in self._rewrite_path:
            path = rewrite(environ, path) or path
        environ["PATH_INFO"] = path
        return super().wsgi_app(environ, start_response)

    def _admit(self) -> Response | None:
        """Check each request before its view is called. If this method returns a response, the view is not called."""
        current = _current_request()
        return self._admission.admit(current, self.view_functions.get(current.endpoint or ""))

    def _finish(self, response: Response) -> Response:
        """Complete each response. A deferred response is passed to the server, or this method waits for it."""
        current = _current_request()
        environ = current.environ
        # Requests without a matching rule get an empty route, because each distinct path or method would become a
        # metric.
        environ[_ROUTE] = (current.method, current.url_rule.rule) if current.url_rule else ("", "")
        accept = environ.get(DEFER, self._acquire_slot)
        while isinstance(response, (DeferredResponse, StreamedResponse)):
            api_error = accept(response)
            if api_error is not None:
                response.close()
                response = self._respond_to(api_error, environ)
            elif isinstance(response, StreamedResponse):
                break
            elif DEFER in environ:
                return response
            else:
                response = self._blocking_response(response, environ)
        # A response with status 100 is neither logged nor counted, because the request itself is logged and counted
        # later.
        return response if response.status_code == 100 else self.finish(response, environ)

    def _respond_to(self, error: Exception, environ: WSGIEnvironment) -> Response:
        return error_response_to(error, environ, max_body_bytes=self.config["MAX_CONTENT_LENGTH"])

    def _acquire_slot(self, response: DeferredResponse | StreamedResponse) -> ApiError | None:
        """Acquire a slot until the response is closed. The limit leaves threads free for other requests."""
        if isinstance(response, StreamedResponse):
            response.is_interrupted = self._cancellation_of(request.environ)
        elif not response.is_poll:
            return None
        application = app_id()
        api_error = self.blocking_polls.acquire(application)
        if api_error is None:
            response.call_on_close(partial(self.blocking_polls.release, application))
        return api_error

    def _blocking_response(self, deferred: DeferredResponse, environ: WSGIEnvironment) -> Response:
        try:
            if deferred.is_poll:
                deferred.wait(self._cancellation_of(environ))
            else:
                deferred.wait()
            # If the client has disconnected, the data must remain for its next poll.
            if deferred.consumes and self.is_disconnected(environ):
                return Response(status=204)
            response = self.current_response(deferred, environ)
            if deferred.sent is not None:
                response.call_on_close(deferred.sent)
            return response
        finally:
            deferred.close()

    def _cancellation_of(self, environ: WSGIEnvironment) -> Callable[[], bool]:
        """Return a function that checks whether a request that blocks a thread can end early."""
        return lambda: self.stopping.is_set() or self.is_disconnected(environ)

    def current_response(self, deferred: DeferredResponse, environ: WSGIEnvironment) -> Response:
        """Return the current response of a pending request, before :meth:`finish`.

        The key is checked again for responses with data, because it may have expired since the admission; see
        :class:`DeferredResponse`. All other results of the admission stay valid.
        """
        try:
            if deferred.rechecks_key:
                self._admission.recheck_key(environ)
            return deferred.current_response()
        except Exception as error:  # any exception becomes an error body
            response = self._respond_to(error, environ)
            # The traceback refers to the future, and the future refers to the error. Only the garbage collector could
            # free this cycle.
            error.__traceback__ = None
            return response

    def finish(self, response: Response, environ: WSGIEnvironment) -> Response:
        """Add the common headers to a response, and call the hook ``response_ready``.

        A shared response already has these headers, so it can be finished after it was sent. A deferred response is
        returned unchanged.
        """
        if isinstance(response, DeferredResponse):
            return response
        if not isinstance(response, SharedResponse):
            # Adding a header is faster than replacing it, and no view sets these headers.
            response.headers.add(REQUEST_ID_HEADER, request_id(environ))
            if not isinstance(response, CacheableResponse):
                response.headers.add(*NO_STORE)
            response.headers.add(*NO_SNIFF)
        seconds = time.perf_counter() - environ[_BEGAN]
        for notify in self._response_ready:
            notify(environ, response, environ[_ROUTE], seconds)
        return response


def create_app(services: Services) -> MirrorApp:
    """Return the app of a server.

    Raises:
        CannotServe: Two routes are the same.
    """
    app = MirrorApp(services)
    for module in (devices, device_requests, subscriptions, notifications):
        app.register_blueprint(module.routes)
    for routes in chain.from_iterable(services.extensions.hook.blueprints()):
        app.register_blueprint(routes)
    for rule in app.url_map.iter_rules():
        if getattr(app.view_functions[rule.endpoint], "without_head", False):
            (rule.methods or set()).discard("HEAD")
    app.register_blueprint(operation.routes)
    require_distinct(_routes_of(app))
    return app


def _routes_of(app: MirrorApp) -> Iterator[tuple[str, str]]:
    """Yield each route with the extension that it belongs to. The names of the route's parameters are left out."""
    for rule in app.url_map.iter_rules():
        name = extension_of(app.view_functions[rule.endpoint].__module__)
        path = re.sub(r"<(\w+:)?\w+>", r"<\1...>", rule.rule)
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
            kind = "websocket route" if rule.websocket else "route"
            yield f"{kind} {method} {path}", f"the extension {name}" if name else SERVER


def _current_request() -> Request:
    """Return the current request object. Flask's proxy would look it up at each use."""
    current: Request = request._get_current_object()  # type: ignore[attr-defined] # a proxy has it
    return current
