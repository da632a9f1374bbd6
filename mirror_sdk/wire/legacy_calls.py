"""The responses of the legacy calls of the public API, for programs that still use them. Source: wire.md 9."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mirror_sdk.wire.model import WireModel

ALWAYS_ACTIVE = "ACTIVE"
"""The status of every endpoint: the public API kept the member for older programs alone."""

REST_VERSIONS = ("v2", "v3")
"""The versions in front of paths, the newest last."""

NOTIFICATION_RULES = ("pmin", "pmax", "gt", "lt", "st")
"""The notification rules of a resource, as parameters in the query of a write. Source: LwM2M 1.0, 5.1.2."""

NUMBER_PATTERN = r"^-?[0-9]{1,15}(?:\.[0-9]{1,15})?$"
"""Regular expression of the value of such a rule."""

FLAGS = ("true", "false", "True", "False")
"""The values of a boolean parameter, as programs in several languages write them."""

NO_QUOTA = 2**31 - 1
"""The number for no quota: the largest number that every program reads."""


class Endpoint(WireModel):
    """A registered device as ``GET /v2/endpoints`` lists it.

    Attributes:
        name: The device's id.
        type: The type the device registers with.
        status: Always ``ACTIVE``.
        q: Whether the device is in queue mode.
    """

    name: str
    type: str = ""
    status: str = ALWAYS_ACTIVE
    q: bool = False


class Limits(WireModel):
    """The quotas of an application, and how much of them it uses.

    This service has no quotas, so both are a number that no application reaches.

    Attributes:
        transaction_quota: A number that no application reaches, because there is no quota.
        transaction_count: The number of entries in the notification log of this application, which goes back a day:
            registrations, values of subscribed resources, async responses.
        endpoint_quota: A number that no application reaches, because there is no quota.
        endpoint_count: The number of registered devices.
    """

    transaction_quota: Annotated[int, Field(alias="transaction-quota")]
    transaction_count: Annotated[int, Field(alias="transaction-count")]
    endpoint_quota: Annotated[int, Field(alias="endpoint-quota")]
    endpoint_count: Annotated[int, Field(alias="endpoint-count")]
