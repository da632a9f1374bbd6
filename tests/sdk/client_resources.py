"""The resources of the two clients, by their names on a client: ``devices``, ``devices.queries``."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from mirror_sdk import AsyncMirrorClient, MirrorClient

URL = "http://127.0.0.1:1"


def resources_of(owner: Any, prefix: str = "") -> dict[str, type]:
    """The classes of the resources of a client or a resource, with those of its resources."""
    found: dict[str, type] = {}
    for name, member in vars(type(owner)).items():
        if isinstance(member, cached_property):
            resource = getattr(owner, name)
            found |= {f"{prefix}{name}": type(resource), **resources_of(resource, f"{prefix}{name}.")}
    return found


with MirrorClient(URL, "a-key") as _client:
    RESOURCES: dict[str, type] = resources_of(_client)
# It has not connected, so there is nothing to close.
ASYNC_RESOURCES: dict[str, type] = resources_of(AsyncMirrorClient(URL, "a-key"))
