"""``GET /v3/api-keys/me``: what an access key may be used for. Source: wire.md 0."""

from __future__ import annotations

from typing import Literal

from mirror_sdk.wire.model import WireModel


class AccessKey(WireModel):
    """The access key of a request, without its secret; ``scopes`` is an extension.

    ``scopes`` are in the order of the alphabet. They are an open set: a service may have more of them.

    Attributes:
        id: The key's id, which is in its second part, and no secret.
    """

    object: Literal["api-key"] = "api-key"
    id: str
    scopes: list[str]
