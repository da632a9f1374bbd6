"""``GET /v3/api-keys/me``, which returns the permissions of an access key. Source: wire.md 0."""

from __future__ import annotations

from typing import Literal

from mirror_sdk.wire.model import WireModel


class AccessKey(WireModel):
    """The access key of a request, without its secret.

    ``scopes`` are the permissions of the key, sorted alphabetically. A service may add further scopes. The scopes are
    an extension of the specification.

    Attributes:
        id: The id of the key. It is the second part of the key and is not secret.
    """

    object: Literal["api-key"] = "api-key"
    id: str
    scopes: list[str]
