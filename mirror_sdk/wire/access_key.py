"""``GET /v3/api-keys/me``: what an access key may be used for. Source: wire.md 0."""

from __future__ import annotations

from typing import Literal

from mirror_sdk.wire.model import WireModel


class AccessKey(WireModel):
    """The access key of a request, without its secret; ``scopes`` is an extension.

    ``scopes`` are sorted alphabetically. A service may add further scopes.

    Attributes:
        id: The id of the key. It is the second part of the key, and is not a secret.
    """

    object: Literal["api-key"] = "api-key"
    id: str
    scopes: list[str]
