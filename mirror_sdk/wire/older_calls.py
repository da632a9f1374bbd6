"""What the older calls of the public API answer, for programs that still use them. Source: wire.md 9."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mirror_sdk.wire.model import WireModel

ALWAYS_ACTIVE = "ACTIVE"
"""The status of every endpoint: the public API kept the member for older programs alone."""

REST_VERSIONS = ("v2", "v3")
"""The versions that stand in front of paths, the newest last."""

NO_QUOTA = 2**31 - 1
"""What stands for a quota where there is none: the largest number that every program reads."""


class Endpoint(WireModel):
    """A registered device as ``GET /v2/endpoints`` lists it."""

    name: str
    type: str = ""
    status: str = ALWAYS_ACTIVE
    q: bool = False


class Limits(WireModel):
    """The limits of an application, and how far it has come.

    This service has no quotas, so that both are a number that is never reached.
    """

    transaction_quota: Annotated[int, Field(alias="transaction-quota")]
    transaction_count: Annotated[int, Field(alias="transaction-count")]
    endpoint_quota: Annotated[int, Field(alias="endpoint-quota")]
    endpoint_count: Annotated[int, Field(alias="endpoint-count")]
