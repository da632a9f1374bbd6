"""The views of E3, presubscription rules, and of single subscriptions. Source: wire.md 3."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

import orjson
from flask import Blueprint, Response, request

from mirror_sdk.wire.presubscription_rules import PresubscriptionRules
from mirror_sdk.wire.routes import SUBSCRIPTION_HEADER
from mirror_sdk.wire.subscriptions import SUBSCRIPTION_ENDED, SubscriptionState
from mirror_server.core.errors import ApiError
from mirror_server.service.keys import Scope
from mirror_server.views.requests import app_id, check_query, read_body, read_path, requires, services
from mirror_server.views.responses import empty_response, when_stored

routes = Blueprint("subscriptions", __name__)


@routes.put("/v2/subscriptions")
@requires(Scope.SUBSCRIBE, query=None)
def put_presubscriptions() -> Response:
    """Replace all presubscription rules.

    Rules are applied when a device registers or updates its registration. Subscriptions that the device rejected or did
    not respond to are then requested again. The request header ``If-Match`` is an extension of the specification.
    """
    also = services().extensions.hook.rules_put()
    if also is None:
        check_query(())
    rules = read_body(PresubscriptionRules)
    text = orjson.dumps(rules.model_dump(mode="json", by_alias=True, exclude_unset=True)).decode()
    stored = services().subscriptions.put_rules(app_id(), text, matches_tag=_if_match(), then=also)

    def accepted(applied: Future[None] | None = None) -> Response:
        return empty_response(202) if applied is None else when_stored(applied, accepted)

    return when_stored(stored, accepted)


@routes.get("/v2/subscriptions")
@requires(Scope.SUBSCRIBE)
def get_presubscriptions() -> Response:
    """Get the presubscription rules as they were set.

    All programs that use this key share the rules. The response header ``ETag`` and the request header
    ``If-None-Match`` are extensions of the specification.
    """
    text, tag = services().subscriptions.rules(app_id())
    is_unchanged = request.if_none_match.contains_weak(tag)
    response = empty_response(304) if is_unchanged else Response(text, content_type="application/json")
    response.set_etag(tag)
    return response


@routes.delete("/v2/subscriptions")
@requires(Scope.SUBSCRIBE)
def delete_presubscriptions() -> Response:
    """Delete all presubscription rules.

    The request header ``If-Match`` is an extension of the specification.
    """
    stored = services().subscriptions.put_rules(app_id(), "[]", matches_tag=_if_match())
    return when_stored(stored, lambda _: empty_response())


@routes.get("/v2/subscriptions/<device_id>")
@requires(Scope.SUBSCRIBE)
def list_subscriptions(device_id: str) -> Response:
    """List the paths of a device to which this application is subscribed."""
    paths = services().subscriptions.paths(app_id(), device_id)
    if not paths:
        raise _not_subscribed(f"no subscription of this key to the device {device_id!r}")
    return Response("\n".join(paths), content_type="text/uri-list")


@routes.delete("/v2/subscriptions/<device_id>")
@requires(Scope.SUBSCRIBE)
def delete_subscriptions(device_id: str) -> Response:
    """End all subscriptions to a device."""
    stored = services().subscriptions.unsubscribe(app_id(), device_id)
    return when_stored(stored, lambda _: empty_response())


@routes.put("/v2/subscriptions/<device_id>/<path:path>")
@requires(Scope.SUBSCRIBE)
def put_subscription(device_id: str, path: str) -> Response:
    """Subscribe to a resource.

    The server requests the observation from the device. If the device rejects the request or does not respond, the
    server repeats it when the device next registers or updates its registration. Another ``PUT``, or rules with
    ``apply=now``, repeat it too. A full registration of the device ends all subscriptions. The notification about the
    registration lists them, which is an extension of the specification.
    """
    stored = services().subscriptions.subscribe(app_id(), device_id, read_path(path))
    return when_stored(stored, lambda _: empty_response(200))


@routes.get("/v2/subscriptions/<device_id>/<path:path>")
@requires(Scope.SUBSCRIBE)
def get_subscription(device_id: str, path: str) -> Response:
    """Get the state of the subscription to a resource.

    If a registration of the device ended the subscription, the ``reason`` of the 404 is ``SUBSCRIPTION_ENDED``, an
    extension of the specification.
    """
    state = services().subscriptions.state(app_id(), device_id, read_path(path))
    if state is SubscriptionState.ENDED:
        raise _ended(path, device_id)
    if state is SubscriptionState.NONE:
        raise _not_subscribed(f"no subscription of this key to /{path} of the device {device_id!r}")
    response = empty_response(200)
    response.headers[SUBSCRIPTION_HEADER] = state
    return response


@routes.delete("/v2/subscriptions/<device_id>/<path:path>")
@requires(Scope.SUBSCRIBE)
def delete_subscription(device_id: str, path: str) -> Response:
    """End the subscription to a resource."""
    stored = services().subscriptions.unsubscribe(app_id(), device_id, read_path(path))
    return when_stored(stored, lambda _: empty_response())


def _if_match() -> Callable[[str], bool] | None:
    """Return a function that compares the ``ETag`` of the rules with ``If-Match``, or ``None`` without that header."""
    # Weak tags are accepted, because a proxy that compresses responses makes their tags weak, although the rules are
    # the same.
    return request.if_match.contains_weak if "If-Match" in request.headers else None


def _ended(path: str, device_id: str) -> ApiError:
    message = (
        f"the subscription to /{path} of the device {device_id!r} ended when the device registered again or"
        " deregistered; PUT it again. To subscribe at every registration, PUT a presubscription rule"
    )
    return ApiError(404, message, reason=SUBSCRIPTION_ENDED)


def _not_subscribed(problem: str) -> ApiError:
    return ApiError(404, f"{problem}; PUT the path below /v2/subscriptions to subscribe", reason="NOT_SUBSCRIBED")
