"""Immediate application of presubscription rules to registered devices: ``PUT /v2/subscriptions?apply=now``.

Without ``apply``, the rules are applied to a device when it next registers or updates its registration. With
``apply``, a thread applies the rules in batches, and continues after a restart. Read ``applier`` first.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirror_server.hooks import extends

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from mirror_server.server import Services
    from mirror_server.store.backend import Storage
    from mirror_server.store.session import Session

_MEANING = (
    " With `apply=now` the rules are also applied to the devices that are registered now. The 202 waits about a second"
    " for this. In a large fleet the rest follows later, even after a restart of the server, unless the rules are"
    " replaced or deleted before. `apply` is an extension."
)


@extends
def storage() -> Storage:
    """Return the table with the progress of applying the rules of each application."""
    from mirror_server.store.backend import Storage
    from mirror_server.store.schema import Branch

    return Storage(branch=Branch("apply", Path(__file__).parent / "migrations"))


@extends
def build(services: Services) -> Sequence[object]:
    """Build the service that applies rules."""
    from mirror_server.extensions.apply.applier import APPLY, RuleApplier

    applier = RuleApplier(services.database, services.subscriptions, services.is_leader)
    services.database.on(APPLY, applier.wake)
    return [applier]


@extends
def rules_put() -> Callable[[Session, str], Future[None] | None]:
    """Parse the parameter ``apply``."""
    from mirror_server.extensions.apply.applier import RuleApplier
    from mirror_server.views.requests import check_query, query_choice, services

    check_query(("apply",))
    apply_now = query_choice("apply", ("now",)) is not None
    return partial(services().part(RuleApplier).rules_put, apply_now=apply_now)


@extends
def extend_openapi(document: dict[str, Any]) -> None:
    """Add the parameter ``apply`` to the OpenAPI document."""
    operation = document["paths"]["/v2/subscriptions"]["put"]
    operation["description"] += _MEANING
    operation["parameters"].insert(
        0,
        {
            "name": "apply",
            "in": "query",
            "description": "With `now`, the rules are applied at once to the devices that are registered now.",
            "schema": {"type": "string", "enum": ["now"]},
            "x-extension": True,
        },
    )
