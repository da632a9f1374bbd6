"""The responses of legacy calls of the public API, for programs that still use these calls. Source: wire.md 9."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mirror_sdk.wire.model import WireModel

ALWAYS_ACTIVE = "ACTIVE"
"""The status of all endpoints. The public API has kept this member only for older programs."""

REST_VERSIONS = ("v2", "v3")
"""The versions that paths begin with, the newest last."""

NOTIFICATION_RULES = ("pmin", "pmax", "gt", "lt", "st")
"""The notification rules of a resource, which are parameters in the query of a write. Source: LwM2M 1.0, 5.1.2."""

NUMBER_PATTERN = r"^-?[0-9]{1,15}(?:\.[0-9]{1,15})?$"
"""A regular expression for the value of a notification rule."""

FLAGS = ("true", "false", "True", "False")
"""The values of a boolean parameter, in the spellings of several programming languages."""

NO_QUOTA = 2**31 - 1
"""The number that means no quota. It is the largest number that all programs can read."""


class Endpoint(WireModel):
    """A registered device in the response of ``GET /v2/endpoints``.

    Attributes:
        name: The id of the device.
        type: The type with which the device registers.
        status: Always ``ACTIVE``.
        q: Whether the device is in queue mode.
    """

    name: str
    type: str = ""
    status: str = ALWAYS_ACTIVE
    q: bool = False


class Limits(WireModel):
    """The quotas of an application, and how much of each quota it uses.

    This service has no quotas. Both quotas are therefore numbers that no application reaches.

    Attributes:
        transaction_quota: A number that no application reaches, because there is no quota.
        transaction_count: The number of entries in the notification log of this application, which covers one day. The
            entries are registrations, values of subscribed resources and async responses.
        endpoint_quota: A number that no application reaches, because there is no quota.
        endpoint_count: The number of registered devices.
    """

    transaction_quota: Annotated[int, Field(alias="transaction-quota")]
    transaction_count: Annotated[int, Field(alias="transaction-count")]
    endpoint_quota: Annotated[int, Field(alias="endpoint-quota")]
    endpoint_count: Annotated[int, Field(alias="endpoint-count")]
