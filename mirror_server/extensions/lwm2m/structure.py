"""What a device has: as its links tell it, and as it was discovered. Source: LwM2M core 1.0 (5.3.1, 5.4.2)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from mirror_sdk.wire.paths import parse_path
from mirror_server.devices.link import IntroducedResource
from mirror_server.extensions.lwm2m.links import Links, is_within
from mirror_server.store import resources


class Structure(NamedTuple):
    """What a device has: as its links tell it, and as it was discovered before."""

    links: Links
    links_hash: bytes
    introduced: tuple[IntroducedResource, ...]
    unknown: tuple[str, ...]
    """What is still to be discovered."""


def structure_of(links: Links, links_hash: bytes, known: Sequence[IntroducedResource]) -> Structure:
    """What a device has, where it had what is known; that may be left out where the links tell all."""
    introduced = {each.introduced.path: each.introduced for each in links.resources}
    unknown = []
    for path in links.to_discover:
        there = [each for each in known if is_within(each.path, path)]
        introduced |= {each.path: each for each in there if each.path not in introduced}
        if not there:
            unknown.append(path)
    return Structure(links, links_hash, tuple(introduced.values()), tuple(unknown))


def with_discovered(
    known: Mapping[str, IntroducedResource], path: str, links: Links | None
) -> dict[str, IntroducedResource]:
    """The resources of a device when it has told what it has below a path; ``None`` where it does not tell."""
    if links is not None:
        others = {each: resource for each, resource in known.items() if not is_within(each, path)}
        return others | {each.introduced.path: each.introduced for each in links.resources}
    if parse_path(path).instance_id is None or any(is_within(each, path) for each in known):
        return dict(known)
    # The instance itself, which can be read whole; as long as it is there it is not asked again.
    return {**known, path: IntroducedResource(path, observable=False)}


def hash_of(links: bytes) -> bytes:
    """A number for links: others have another one."""
    return hashlib.blake2b(links, digest_size=8).digest()


def introduced_of(announced: Iterable[resources.AnnouncedResource]) -> list[IntroducedResource]:
    """Resources as they are stored, as a device introduces them."""
    return [
        IntroducedResource(each.path, each.resource_type, each.content_type, each.observable, each.auto_observed)
        for each in announced
    ]
