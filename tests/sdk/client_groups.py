"""The groups of the two clients, by their names on a client: ``devices``, ``devices.queries``."""

from __future__ import annotations

from typing import Any

from mirror_sdk import AsyncMirrorClient, MirrorClient
from mirror_sdk._fork import lazy_property

URL = "http://127.0.0.1:1"


def groups_of(owner: Any, prefix: str = "") -> dict[str, type]:
    """Return the classes of the groups of a client or a group, including nested groups."""
    found: dict[str, type] = {}
    for name, member in vars(type(owner)).items():
        if isinstance(member, lazy_property):
            group = getattr(owner, name)
            found |= {f"{prefix}{name}": type(group), **groups_of(group, f"{prefix}{name}.")}
    return found


with MirrorClient(URL, "a-key") as _client:
    GROUPS: dict[str, type] = groups_of(_client)
# The client has not connected, so there is nothing to close.
ASYNC_GROUPS: dict[str, type] = groups_of(AsyncMirrorClient(URL, "a-key"))
