"""The models of presubscription rules and subscriptions (E3). Source: specification E3 and 3.3; wire.md 3."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter

from mirror_sdk.wire.model import WireModel
from mirror_sdk.wire.paths import TEXT_PATTERN, check_path_pattern, check_pattern, matches

MAX_RULES = 1024
MAX_PATHS = 256
SUBSCRIPTION_ENDED = "SUBSCRIPTION_ENDED"
"""The reason of a 404 response for a single subscription that ended with a new registration or a deregistration."""
RULES_CHANGED = "RULES_CHANGED"
"""The reason of a 412 response to a change of rules, if the rules have changed since the writer read them."""


class SubscriptionState(StrEnum):
    """The state of an application's subscription to a resource. Source: wire.md 3.

    - ``ACTIVE``: The device has accepted the subscription.
    - ``ASKED``: The device has not responded yet, or the service does not send the state.
    - ``REFUSED``: The device rejected the subscription. The service retries when the device next registers or updates
      its registration.
    - ``ENDED``: A subscription that was made for this one resource, not by a rule, has ended. The reason is that the
      device registered again or deregistered.
    - ``NONE``: No subscription was requested.
    """

    ACTIVE = "active"
    ASKED = "asked"
    REFUSED = "refused"
    ENDED = "ended"
    NONE = "none"

    @property
    def is_active_or_pending(self) -> bool:
        """Whether the subscription is active, or may become active without a new request."""
        return self in {SubscriptionState.ACTIVE, SubscriptionState.ASKED}


_Name = Annotated[
    str,
    Field(min_length=1, max_length=64, json_schema_extra={"pattern": TEXT_PATTERN}),
    AfterValidator(check_pattern),
]


_PathPattern = Annotated[
    str,
    Field(min_length=1, max_length=128, json_schema_extra={"pattern": r"^(?:/[^*]*\*?|\*)$"}),
    AfterValidator(check_path_pattern),
]


class PresubscriptionRule(WireModel):
    """A rule that subscribes to resources when a device registers. An absent member matches everything.

    Attributes:
        endpoint_name: The id or the endpoint name of the device. A final ``*`` matches any characters.
        endpoint_type: The type of the device. A final ``*`` matches any characters.
        resource_path: The resource paths. In each of them, a final ``*`` matches any characters.
    """

    endpoint_name: Annotated[_Name | None, Field(alias="endpoint-name")] = None
    endpoint_type: Annotated[_Name | None, Field(alias="endpoint-type")] = None
    resource_path: Annotated[
        list[_PathPattern] | None, Field(alias="resource-path", min_length=1, max_length=MAX_PATHS)
    ] = None

    def matches_device(self, *, device_id: str, endpoint_name: str, endpoint_type: str) -> bool:
        """Return whether the rule matches this device. ``endpoint-name`` is compared with both the id and the name."""
        if self.endpoint_type is not None and not matches(self.endpoint_type, endpoint_type):
            return False
        if self.endpoint_name is None:
            return True
        return matches(self.endpoint_name, device_id) or matches(self.endpoint_name, endpoint_name)

    def matches_path(self, path: str) -> bool:
        """Return whether the rule matches this resource path."""
        if self.resource_path is None:
            return True
        exact, beginnings = self.paths_and_beginnings
        return path in exact or any(path[:length] in beginnings for length in range(len(path) + 1))

    # Sets, because the rules of an application may have 200,000 patterns, which are compared for each device.
    @cached_property
    def paths_and_beginnings(self) -> tuple[frozenset[str], frozenset[str]]:
        """The paths without ``*``, and the beginnings of the paths that end with ``*``."""
        patterns = self.resource_path or []
        beginnings = frozenset(pattern[:-1] for pattern in patterns if pattern.endswith("*"))
        return frozenset(pattern for pattern in patterns if not pattern.endswith("*")), beginnings


PRESUBSCRIPTION_RULES = TypeAdapter(
    Annotated[list[PresubscriptionRule], Field(max_length=MAX_RULES)], config=ConfigDict(defer_build=True)
)
"""The type adapter for all rules of an application in their stored order."""
