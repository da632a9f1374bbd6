"""The links of a device, which are in its registration and in its responses to Discover.

Source: RFC 6690; LwM2M core 1.0 (5.3.1, 5.4.2) and 1.1 (6.2.1, 6.3.2).
"""

from __future__ import annotations

import hashlib
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mirror_sdk.object_definitions import ResourceType, lookup
from mirror_sdk.wire.link_format import InvalidLinkFormat, Link, parse_links
from mirror_sdk.wire.paths import PathParts, parse_path
from mirror_server.devices.interface import Content
from mirror_server.store.resources import AnnouncedResource

MAX_LINKS = 3000
MAX_BYTES = 256 * 1024
_LONGEST_TEXT = 128
_ROOT = "oma.lwm2m"
_KEYS = frozenset({0, 21})
"""The objects with keys, which are Security and OSCORE. No server may read or write them."""
# ``*+`` does not backtrack, so long strings from devices take linear time.
_PREFIX = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+:@-]{1,64})*+")
_LWM2M_PATH = re.compile(r"/[0-9]")
_NUMBER = re.compile(r"[0-9]{1,5}")
_HIGHEST = 65535


class BadLinks(ValueError):
    """The links are not valid. The message has the reason and the cure."""


class TooManyLinks(BadLinks):
    """There are too many links, or they are too long. The message has the limit."""


@dataclass(frozen=True, slots=True)
class LinkedResource:
    """A resource that a link describes.

    Attributes:
        announced: The resource as the directory stores it.
        auto_token: The token of the notifications if the resource is auto-observed, otherwise ``None``.
        published: The value that the link contains, or ``None``.
    """

    announced: AnnouncedResource
    auto_token: bytes | None = None
    published: Content | None = None


@dataclass(frozen=True, slots=True)
class Links:
    """The links of one device.

    Attributes:
        resources: The resources in the order of their links, without duplicates.
        to_discover: The paths to discover. These are object instances (``/3303/0``) without a link to a resource, and
            objects (``/3303``) without a link to an instance.
        content_formats: The numbers of the content formats that the device declares.
        prefix: The path of the objects, for example ``/lwm2m``, or ``""`` for the root.
    """

    resources: tuple[LinkedResource, ...] = ()
    to_discover: tuple[str, ...] = ()
    content_formats: frozenset[int] = frozenset()
    prefix: str = ""

    @property
    def published(self) -> dict[str, Content]:
        """The values that the links contain, by path."""
        return {each.announced.path: each.published for each in self.resources if each.published is not None}


class Structure(NamedTuple):
    """The resources of a device, as known from its links and from earlier discoveries."""

    links: Links
    links_hash: bytes
    announced: tuple[AnnouncedResource, ...]
    unknown: tuple[str, ...]
    """The paths that still have to be discovered."""


def read_links(
    payload: bytes, *, prefix: str | None = None, max_links: int = MAX_LINKS, max_bytes: int = MAX_BYTES
) -> Links:
    """Parse the links in a registration or in a Discover response. This takes linear time.

    Links to anything except LwM2M objects are ignored. Objects with keys and unknown attributes are ignored, too.

    Args:
        payload: The links.
        prefix: The prefix of the registration, for a Discover response. ``None`` means that the prefix is in the links.
        max_links: The maximum number of links.
        max_bytes: The maximum length of the payload.

    Raises:
        BadLinks: The links are not valid, have an invalid path, or contradict each other.
        TooManyLinks: There are too many links, or they are too long.
    """
    links = _parsed(payload, max_links, max_bytes)
    root = _root(links)
    prefix = _prefix(root) if prefix is None else prefix
    formats = frozenset() if root is None else _formats(root)
    return replace(_structure(list(_below(prefix, links))), content_formats=formats, prefix=prefix)


def structure_of(links: Links, links_hash: bytes, stored: Sequence[AnnouncedResource]) -> Structure:
    """Return the resources in the links of a device, and the stored resources below its paths to discover."""
    announced = {each.announced.path: each.announced for each in links.resources}
    unknown = []
    for path in links.to_discover:
        below = [each for each in stored if is_within(each.path, path)]
        announced |= {each.path: each for each in below if each.path not in announced}
        if not below:
            unknown.append(path)
    return Structure(links, links_hash, tuple(announced.values()), tuple(unknown))


def with_discovered(
    stored: Mapping[str, AnnouncedResource], path: str, links: Links | None
) -> dict[str, AnnouncedResource]:
    """Return the stored resources of a device after a discovery, which replaces the resources below a path.

    Args:
        stored: The stored resources of the device, by path.
        path: The discovered path.
        links: The links in the response, or ``None`` if the device did not return any.
    """
    if links is not None:
        outside = {each: resource for each, resource in stored.items() if not is_within(each, path)}
        return outside | {each.announced.path: each.announced for each in links.resources}
    if parse_path(path).instance_id is None or any(is_within(each, path) for each in stored):
        return dict(stored)
    # Announce the instance itself, because it can be read as one. While it is stored, it is not discovered again.
    return {**stored, path: AnnouncedResource(path, observable=False)}


def hash_of(links: bytes) -> bytes:
    """Return a hash of links, with which a change of the links is detected."""
    return hashlib.blake2b(links, digest_size=8).digest()


def is_opaque(path: str) -> bool:
    """Return whether the object definitions declare that the value of a resource is bytes."""
    definition = lookup(path)
    return definition is not None and definition.type is ResourceType.OPAQUE


def is_within(path: str, outer: str) -> bool:
    """Return whether a path is equal to another path or below it."""
    return path == outer or path.startswith(f"{outer}/")


def is_readable(path: str) -> bool:
    """Return whether a resource can be read and observed. Unknown resources count as readable."""
    definition = lookup(path)
    return definition is None or "R" in definition.access


def _parsed(payload: bytes, max_links: int, max_bytes: int) -> list[Link]:
    if len(payload) > max_bytes:
        raise TooManyLinks(f"the links have {len(payload)} bytes; the maximum is {max_bytes}")
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise BadLinks(f"the links are not UTF-8 ({exc.reason} at byte {exc.start})") from exc
    links: list[Link] = []
    try:
        for link in parse_links(text):
            if len(links) == max_links:
                raise TooManyLinks(f"too many links; the maximum is {max_links}")
            links.append(link)
    except InvalidLinkFormat as exc:
        raise BadLinks(str(exc)) from exc
    return links


def _root(links: Iterable[Link]) -> Link | None:
    """Return the link that has the path of the objects. If no link has that type, return the link to ``/``."""
    by_type = (link for link in links if _ROOT in link.attributes.get("rt", "").split())
    return next(by_type, None) or next((link for link in links if link.target == "/"), None)


def _prefix(root: Link | None) -> str:
    prefix = "" if root is None else root.target.rstrip("/")
    if len(prefix) > _LONGEST_TEXT or not _PREFIX.fullmatch(prefix):
        raise BadLinks(f"the path of {_ROOT} is not valid: {reprlib.repr(prefix)}; write it like </> or </lwm2m>")
    return prefix


def _formats(root: Link) -> frozenset[int]:
    return frozenset(_number("ct", number, root.target) for number in root.attributes.get("ct", "").split())


def _number(name: str, text: str, target: str) -> int:
    if not _NUMBER.fullmatch(text) or int(text) > _HIGHEST:
        raise BadLinks(f"{name}={reprlib.repr(text)} of {reprlib.repr(target)} is not a number from 0 to {_HIGHEST}")
    return int(text)


class _LWM2MLink(NamedTuple):
    parts: PathParts
    path: str
    attributes: Mapping[str, str]


def _below(prefix: str, links: Iterable[Link]) -> Iterator[_LWM2MLink]:
    """Yield the links to objects, with their paths relative to the prefix. Some devices omit the prefix."""
    for link in links:
        path = link.target.removeprefix(prefix) if link.target.startswith(f"{prefix}/") else link.target
        if _LWM2M_PATH.match(path):
            try:
                parts = parse_path(path)
            except ValueError as exc:
                # The path may be long, so only the cure is quoted.
                cure = str(exc).rpartition("; ")[2]
                raise BadLinks(f"link {reprlib.repr(link.target)}: {cure}") from exc
            if parts.object_id not in _KEYS:
                yield _LWM2MLink(parts, path, link.attributes)


def _structure(links_below: list[_LWM2MLink]) -> Links:
    attributes_of: dict[str, Mapping[str, str]] = {}
    with_links: set[str] = set()
    for parts, _, attributes in links_below:
        if parts.resource_id is not None:
            # The attributes of a resource instance do not apply to the resource.
            of_resource = attributes if parts.resource_instance_id is None else {}
            attributes_of.setdefault(f"/{parts.object_id}/{parts.instance_id}/{parts.resource_id}", of_resource)
        if parts.instance_id is not None:
            with_links.add(f"/{parts.object_id}")
        if parts.resource_id is not None:
            with_links.add(f"/{parts.object_id}/{parts.instance_id}")
    declares_observable = any("obs" in attributes for attributes in attributes_of.values())
    resources = tuple(_resource(path, attributes, declares_observable) for path, attributes in attributes_of.items())
    _check_tokens(resources)
    above = {path: None for parts, path, _ in links_below if parts.resource_id is None and path not in with_links}
    return Links(resources, tuple(above))


def _resource(path: str, attributes: Mapping[str, str], declares_observable: bool) -> LinkedResource:
    """Return the resource of a link. If any link of a device has ``obs``, resources without it are not observable."""
    readable = is_readable(path)
    token = _auto_token(path, attributes) if readable else None
    observable = readable and (not declares_observable or "obs" in attributes or "aobs" in attributes)
    announced = AnnouncedResource(
        path,
        resource_type=_short("rt", attributes.get("rt", ""), path),
        content_type="application/octet-stream" if is_opaque(path) else "text/plain",
        observable=observable,
        auto_observed=token is not None,
    )
    published = Content(attributes["v"].encode()) if readable and attributes.get("v") else None
    return LinkedResource(announced, token, published)


def _short(name: str, text: str, path: str) -> str:
    if len(text) > _LONGEST_TEXT or not text.isprintable():
        raise BadLinks(f"{name}={reprlib.repr(text)} of {path} must be at most {_LONGEST_TEXT} printable characters")
    return text


def _auto_token(path: str, attributes: Mapping[str, str]) -> bytes | None:
    """Return the token of an auto-observed resource.

    The link has the token as a decimal number of two bytes, as in ``aobs="727"`` or ``aobs;id=727``.
    """
    if "aobs" not in attributes:
        return None
    number = attributes["aobs"] or attributes.get("id", "")
    return _number("aobs", number, path).to_bytes(2, "big")


def _check_tokens(resources: Iterable[LinkedResource]) -> None:
    paths: dict[bytes, str] = {}
    for resource in resources:
        token = resource.auto_token
        if token is None:
            continue
        path = resource.announced.path
        if paths.setdefault(token, path) != path:
            number = int.from_bytes(token, "big")
            raise BadLinks(f"aobs={number} is used for {paths[token]} and {path}; use a different number for each")
