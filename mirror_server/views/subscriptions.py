"""E3, presubscription rules, and single subscriptions. Source: wire.md 3."""

from __future__ import annotations

from collections.abc import Callable

import orjson
from flask import Blueprint, Response, request

from mirror_sdk.wire.presubscription_rules import PresubscriptionRules
from mirror_sdk.wire.routes import SUBSCRIPTION_HEADER
from mirror_sdk.wire.subscriptions import SUBSCRIPTION_ENDED, SubscriptionState
from mirror_server.core.errors import Refusal
from mirror_server.service.keys import Scope
from mirror_server.views.answers import empty_answer, when_stored
from mirror_server.views.requests import app_id, query_choice, read_body, read_path, requires, services

routes = Blueprint("subscriptions", __name__)


@routes.put("/v2/subscriptions")
@requires(Scope.SUBSCRIBE, query=("apply",))
def put_presubscriptions() -> Response:
    """Replace all rules of this key."""
    rules = read_body(PresubscriptionRules)
    apply_now = query_choice("apply", ("now",)) is not None
    text = orjson.dumps(rules.model_dump(mode="json", by_alias=True, exclude_unset=True)).decode()
    stored = services().subscriptions.put_rules(app_id(), text, apply_now=apply_now, was_seen=_was_seen())
    return when_stored(stored, lambda _: empty_answer(202))


@routes.get("/v2/subscriptions")
@requires(Scope.SUBSCRIBE)
def get_presubscriptions() -> Response:
    """The rules as they were put."""
    text, tag = services().subscriptions.rules(app_id())
    known = request.if_none_match.contains_weak(tag)
    answer = empty_answer(304) if known else Response(text, content_type="application/json")
    answer.set_etag(tag)
    return answer


@routes.delete("/v2/subscriptions")
@requires(Scope.SUBSCRIBE)
def delete_presubscriptions() -> Response:
    """Remove all rules of this key."""
    stored = services().subscriptions.delete_rules(app_id(), was_seen=_was_seen())
    return when_stored(stored, lambda _: empty_answer())


@routes.get("/v2/subscriptions/<device_id>")
@requires(Scope.SUBSCRIBE)
def list_subscriptions(device_id: str) -> Response:
    """The paths of a device that this key subscribed to."""
    paths = services().subscriptions.paths(app_id(), device_id)
    if not paths:
        raise _not_subscribed(f"no subscription of this key to the device {device_id!r}")
    return Response("\n".join(paths), content_type="text/uri-list")


@routes.delete("/v2/subscriptions/<device_id>")
@requires(Scope.SUBSCRIBE)
def delete_subscriptions(device_id: str) -> Response:
    """End all subscriptions of this key to a device."""
    stored = services().subscriptions.unsubscribe(app_id(), device_id)
    return when_stored(stored, lambda _: empty_answer())


@routes.put("/v2/subscriptions/<device_id>/<path:path>")
@requires(Scope.SUBSCRIBE)
def put_subscription(device_id: str, path: str) -> Response:
    """Subscribe to a resource."""
    stored = services().subscriptions.subscribe(app_id(), device_id, read_path(path))
    return when_stored(stored, lambda _: empty_answer(200))


@routes.get("/v2/subscriptions/<device_id>/<path:path>")
@requires(Scope.SUBSCRIBE)
def get_subscription(device_id: str, path: str) -> Response:
    """Whether a resource is subscribed to, and what became of asking the device."""
    state = services().subscriptions.state(app_id(), device_id, read_path(path))
    if state is SubscriptionState.ENDED:
        raise _ended(path, device_id)
    if state is SubscriptionState.NONE:
        raise _not_subscribed(f"no subscription of this key to /{path} of the device {device_id!r}")
    answer = empty_answer(200)
    answer.headers[SUBSCRIPTION_HEADER] = state
    return answer


@routes.delete("/v2/subscriptions/<device_id>/<path:path>")
@requires(Scope.SUBSCRIBE)
def delete_subscription(device_id: str, path: str) -> Response:
    """End the subscription to a resource."""
    stored = services().subscriptions.unsubscribe(app_id(), device_id, read_path(path))
    return when_stored(stored, lambda _: empty_answer())


def _was_seen() -> Callable[[str], bool] | None:
    """Which tags of the rules a writer saw; ``None`` where it does not say."""
    # A proxy that compresses answers makes their tags weak, which changes nothing here: the rules are the same.
    return request.if_match.contains_weak if "If-Match" in request.headers else None


def _ended(path: str, device_id: str) -> Refusal:
    message = (
        f"the subscription of /{path} of the device {device_id!r} ended with the device's registration; PUT it again,"
        " or a presubscription rule, which holds for every registration"
    )
    return Refusal(404, message, reason=SUBSCRIPTION_ENDED)


def _not_subscribed(what: str) -> Refusal:
    return Refusal(404, f"{what}; PUT the path below /v2/subscriptions to subscribe", reason="NOT_SUBSCRIBED")
