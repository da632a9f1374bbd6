"""The links of a device: in its registration, and in its response to Discover.

Source: RFC 6690; LwM2M core 1.0 (5.3.1, 5.4.2) and 1.1 (6.2.1, 6.3.2).
"""

from __future__ import annotations

import hashlib
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mirror_sdk.object_table import ResourceType, lookup
from mirror_sdk.wire.link_format import Link, NoLinks, parse_links
from mirror_sdk.wire.paths import PathParts, parse_path
from mirror_server.devices.link import Content
from mirror_server.store.resources import AnnouncedResource

MOST_LINKS = 3000
MOST_BYTES = 256 * 1024
_LONGEST_TEXT = 128
_ROOT = "oma.lwm2m"
_KEYS = frozenset({0, 21})
"""The objects of keys, security and OSCORE: no server reads or writes them."""
_PREFIX = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+:@-]{1,64})*+")
_LWM2M_PATH = re.compile(r"/[0-9]")
_NUMBER = re.compile(r"[0-9]{1,5}")
_HIGHEST = 65535


class BadLinks(ValueError):
    """Links cannot be taken; the message names what is wrong and the cure."""


class TooManyLinks(BadLinks):
    """There are more links than are taken, or they are longer; the message tells the bound."""


@dataclass(frozen=True, slots=True)
class LinkedResource:
    """A resource in a link.

    Attributes:
        introduced: The resource for the directory.
        auto_token: The token of its unasked notifications; ``None`` if it sends none.
        published: The value that stands in the link.
    """

    introduced: AnnouncedResource
    auto_token: bytes | None = None
    published: Content | None = None


@dataclass(frozen=True, slots=True)
class Links:
    """The links of one device.

    Attributes:
        resources: The resources, in the order of the links, each once.
        to_discover: Object instances (``/3303/0``) without a link to a resource, and objects (``/3303``) without one
            to an instance.
        content_formats: Numbers of the formats that the device says it speaks.
        prefix: Under which path the objects are, ``/lwm2m``; ``""`` where they are at the root.
    """

    resources: tuple[LinkedResource, ...] = ()
    to_discover: tuple[str, ...] = ()
    content_formats: frozenset[int] = frozenset()
    prefix: str = ""

    @property
    def published(self) -> dict[str, Content]:
        """The values that stand in the links, by path."""
        return {each.introduced.path: each.published for each in self.resources if each.published is not None}


class Structure(NamedTuple):
    """The resources of a device: those in its links, and those that were discovered before."""

    links: Links
    links_hash: bytes
    introduced: tuple[AnnouncedResource, ...]
    unknown: tuple[str, ...]
    """The paths that are still to be discovered."""


def read_links(
    payload: bytes, *, prefix: str | None = None, most_links: int = MOST_LINKS, most_bytes: int = MOST_BYTES
) -> Links:
    """Read the links of a registration, or of an answer to Discover. In linear time.

    Links to other things than LwM2M objects are left out, as are the objects of keys, and attributes nobody knows.

    Args:
        payload: The links.
        prefix: For a response to Discover: the prefix of the registration. Otherwise it is in the links.
        most_links: The largest number of links.
        most_bytes: The largest length.

    Raises:
        BadLinks: They are no links, name a path that cannot be, or contradict each other.
        TooManyLinks: They are too many, or too long.
    """
    links = _parsed(payload, most_links, most_bytes)
    root = _root(links)
    prefix = _prefix(root) if prefix is None else prefix
    formats = frozenset() if root is None else _formats(root)
    return replace(_structure(list(_below(prefix, links))), content_formats=formats, prefix=prefix)


def structure_of(links: Links, links_hash: bytes, known: Sequence[AnnouncedResource]) -> Structure:
    """Return the resources of a device by its links, and for paths to discover by those that are known."""
    introduced = {each.introduced.path: each.introduced for each in links.resources}
    unknown = []
    for path in links.to_discover:
        there = [each for each in known if is_within(each.path, path)]
        introduced |= {each.path: each for each in there if each.path not in introduced}
        if not there:
            unknown.append(path)
    return Structure(links, links_hash, tuple(introduced.values()), tuple(unknown))


def with_discovered(
    known: Mapping[str, AnnouncedResource], path: str, links: Links | None
) -> dict[str, AnnouncedResource]:
    """Return the resources of a device with those discovered below a path; ``None`` if it does not return any."""
    if links is not None:
        others = {each: resource for each, resource in known.items() if not is_within(each, path)}
        return others | {each.introduced.path: each.introduced for each in links.resources}
    if parse_path(path).instance_id is None or any(is_within(each, path) for each in known):
        return dict(known)
    # The instance itself, which can be read whole; as long as it is there it is not discovered again.
    return {**known, path: AnnouncedResource(path, observable=False)}


def hash_of(links: bytes) -> bytes:
    """Return the hash of links, to see whether they changed."""
    return hashlib.blake2b(links, digest_size=8).digest()


def is_opaque(path: str) -> bool:
    """Whether the object table declares a resource as bytes."""
    definition = lookup(path)
    return definition is not None and definition.type is ResourceType.OPAQUE


def is_within(path: str, outer: str) -> bool:
    """Whether a path is another one, or lies in it."""
    return path == outer or path.startswith(f"{outer}/")


def is_readable(path: str) -> bool:
    """Whether the object table lets a resource be read, and with it observed; what it does not have may be."""
    definition = lookup(path)
    return definition is None or "R" in definition.access


def _parsed(payload: bytes, most_links: int, most_bytes: int) -> list[Link]:
    if len(payload) > most_bytes:
        raise TooManyLinks(f"{len(payload)} bytes of links are too many; {most_bytes} are the most")
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise BadLinks(f"the links are not UTF-8 ({exc.reason} at byte {exc.start})") from exc
    links: list[Link] = []
    try:
        for link in parse_links(text):
            if len(links) == most_links:
                raise TooManyLinks(f"there are too many links; {most_links} are the most")
            links.append(link)
    except NoLinks as exc:
        raise BadLinks(str(exc)) from exc
    return links


def _root(links: Iterable[Link]) -> Link | None:
    """The link that says where the objects are; without one of its type, the one to ``/``."""
    by_type = (link for link in links if _ROOT in link.attributes.get("rt", "").split())
    return next(by_type, None) or next((link for link in links if link.target == "/"), None)


def _prefix(root: Link | None) -> str:
    prefix = "" if root is None else root.target.rstrip("/")
    if len(prefix) > _LONGEST_TEXT or not _PREFIX.fullmatch(prefix):
        raise BadLinks(f"the path of {_ROOT} is {reprlib.repr(prefix)}; write it like </> or </lwm2m>")
    return prefix


def _formats(root: Link) -> frozenset[int]:
    return frozenset(_number("ct", number, root.target) for number in root.attributes.get("ct", "").split())


def _number(name: str, text: str, target: str) -> int:
    if not _NUMBER.fullmatch(text) or int(text) > _HIGHEST:
        raise BadLinks(f"{name}={reprlib.repr(text)} of {reprlib.repr(target)} is no number from 0 to {_HIGHEST}")
    return int(text)


class _PlacedLink(NamedTuple):
    parts: PathParts
    path: str
    attributes: Mapping[str, str]


def _below(prefix: str, links: Iterable[Link]) -> Iterator[_PlacedLink]:
    """The links to objects, with their paths below the prefix; there are devices that leave it out."""
    for link in links:
        path = link.target.removeprefix(prefix) if link.target.startswith(f"{prefix}/") else link.target
        if _LWM2M_PATH.match(path):
            try:
                parts = parse_path(path)
            except ValueError as exc:
                # Without the path, which may be long.
                cure = str(exc).rpartition("; ")[2]
                raise BadLinks(f"link {reprlib.repr(link.target)}: {cure}") from exc
            if parts.object_id not in _KEYS:
                yield _PlacedLink(parts, path, link.attributes)


def _structure(placed: list[_PlacedLink]) -> Links:
    of_resources: dict[str, Mapping[str, str]] = {}
    known: set[str] = set()
    for parts, _, attributes in placed:
        if parts.resource_id is not None:
            told = attributes if parts.resource_instance_id is None else {}
            of_resources.setdefault(f"/{parts.object_id}/{parts.instance_id}/{parts.resource_id}", told)
        if parts.instance_id is not None:
            known.add(f"/{parts.object_id}")
        if parts.resource_id is not None:
            known.add(f"/{parts.object_id}/{parts.instance_id}")
    tells_observable = any("obs" in told for told in of_resources.values())
    resources = tuple(_resource(path, told, tells_observable) for path, told in of_resources.items())
    _check_tokens(resources)
    above = {path: None for parts, path, _ in placed if parts.resource_id is None and path not in known}
    return Links(resources, tuple(above))


def _resource(path: str, told: Mapping[str, str], tells_observable: bool) -> LinkedResource:
    """A resource; where a device says ``obs`` of some resources, it means that the others are not."""
    readable = is_readable(path)
    token = _auto_token(path, told) if readable else None
    observable = readable and (not tells_observable or "obs" in told or "aobs" in told)
    introduced = AnnouncedResource(
        path,
        resource_type=_short("rt", told.get("rt", ""), path),
        content_type="application/octet-stream" if is_opaque(path) else "text/plain",
        observable=observable,
        auto_observed=token is not None,
    )
    published = Content(told["v"].encode()) if readable and told.get("v") else None
    return LinkedResource(introduced, token, published)


def _short(name: str, text: str, path: str) -> str:
    if len(text) > _LONGEST_TEXT or not text.isprintable():
        raise BadLinks(f"{name}={reprlib.repr(text)} of {path} is no printable text of {_LONGEST_TEXT} characters")
    return text


def _auto_token(path: str, told: Mapping[str, str]) -> bytes | None:
    """The token, told as the decimal of a two-byte big-endian number: ``aobs="727"`` or ``aobs;id=727``."""
    if "aobs" not in told:
        return None
    number = told["aobs"] or told.get("id", "")
    return _number("aobs", number, path).to_bytes(2, "big")


def _check_tokens(resources: Iterable[LinkedResource]) -> None:
    paths: dict[bytes, str] = {}
    for resource in resources:
        token = resource.auto_token
        if token is None:
            continue
        path = resource.introduced.path
        if paths.setdefault(token, path) != path:
            number = int.from_bytes(token, "big")
            raise BadLinks(f"aobs={number} stands for {paths[token]} and {path}; give each a number of its own")
