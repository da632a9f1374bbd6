"""What a device has: resources, how often their changes are told, and the links it announces them with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from mirror_sdk.errors import ValueRefused
from mirror_sdk.values import TEXT_PLAIN, PythonValue, encode
from mirror_sdk.wire.paths import parse_path
from mirror_server.core.instants import Instant


@dataclass(slots=True)
class DeviceResource:
    """A resource of a device.

    Attributes:
        path: ``/3303/0/5700``.
        value: Its value; ``None`` for one that has none, such as an executable one.
        observable: Whether it is announced as observable.
        auto_observed_token: With a token, two bytes as a number, its changes are sent though nobody observes it.
        accepts: Which values may be written, of those of its type; all without it.
        on_write: Called with each value that was written.
        on_execute: Called with the argument of each execution; with it the resource is executable.
        changed_at: When it got its value.
    """

    path: str
    value: PythonValue | None = None
    writable: bool = False
    observable: bool = True
    auto_observed_token: int | None = None
    accepts: Callable[[PythonValue], bool] | None = None
    on_write: Callable[[PythonValue], None] | None = None
    on_execute: Callable[[bytes], None] | None = None
    changed_at: Instant = 0

    @property
    def is_executable(self) -> bool:
        """Whether it takes an execution, and has no value."""
        return self.on_execute is not None

    def takes(self, value: PythonValue) -> bool:
        """Whether the value may be written: of the declared type and range, and accepted."""
        try:
            encode(value, self.path, allow_read_only=True)
        except ValueRefused:
            return False
        return self.accepts is None or self.accepts(value)

    def set(self, value: PythonValue, now: Instant) -> None:
        """Give it a value.

        Raises:
            ValueRefused: It is not of the type or range that is declared for the path.
        """
        encode(value, self.path, allow_read_only=True)
        if value != self.value:
            self.value, self.changed_at = value, now


@dataclass(frozen=True, slots=True)
class Attributes:
    """When changes are told: ``pmin_seconds`` after another one at the soonest; after ``pmax_seconds`` in any case."""

    pmin_seconds: int | None = None
    pmax_seconds: int | None = None

    def changed(self, query: Iterable[str]) -> Attributes:
        """These attributes as a Write-Attributes changes them: ``pmin=5`` sets one, ``pmin`` takes it away.

        Raises:
            ValueError: There is an attribute of another name, none at all, or one that is no number of seconds.

        Source: LwM2M core 5.1.2.
        """
        words = [word.partition("=") for word in query]
        if not words or any(name not in {"pmin", "pmax"} for name, _, _ in words):
            raise ValueError("attributes are pmin and pmax")
        given = {f"{name}_seconds": _seconds(text) if equals else None for name, equals, text in words}
        return replace(self, **given)

    def or_else(self, outer: Attributes) -> Attributes:
        """These attributes, and what they leave open as the object or instance around has it."""
        return Attributes(
            outer.pmin_seconds if self.pmin_seconds is None else self.pmin_seconds,
            outer.pmax_seconds if self.pmax_seconds is None else self.pmax_seconds,
        )

    def as_link(self) -> str:
        """The attributes as parameters of a link."""
        pmin = "" if self.pmin_seconds is None else f";pmin={self.pmin_seconds}"
        return pmin if self.pmax_seconds is None else f"{pmin};pmax={self.pmax_seconds}"


def _seconds(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise ValueError(f"{text!r} is no number of seconds")
    return int(text)


def outer_paths(path: str) -> list[str]:
    """The path and those around it, from the inside: ``/3303/0/5700``, ``/3303/0``, ``/3303``."""
    words = path.strip("/").split("/")
    return ["/" + "/".join(words[:length]) for length in range(len(words), 0, -1)]


@dataclass(frozen=True, slots=True)
class LinkStyle:
    """How a device writes the links of its registration; devices differ in it.

    Attributes:
        of: Whether each resource is announced, or the instances of objects alone.
        root: The link of the root, such as ``</>;rt="oma.lwm2m";ct=110``; none where it is empty.
        has_quotes: Whether the numbers of ``aobs`` and ``ver`` stand in quotes.
        tells_observable: Whether ``;obs`` is said.
        publishes_values: Whether values come along as ``;v="..."``.
        object_versions: The version of objects that are announced with one.
    """

    of: Literal["resources", "instances"] = "resources"
    root: str = ""
    has_quotes: bool = True
    tells_observable: bool = True
    publishes_values: bool = False
    object_versions: Mapping[int, str] = field(default_factory=dict)

    def write(self, resources: Sequence[DeviceResource]) -> str:
        """The links of the registration. Source: LwM2M core 6.2.1; RFC 6690."""
        ordered = sorted(resources, key=lambda resource: parse_path(resource.path))
        versions = [f"</{number}>;ver={self._quoted(version)}" for number, version in self.object_versions.items()]
        if self.of == "instances":
            links = [f"<{path}>" for path in dict.fromkeys(outer_paths(resource.path)[-2] for resource in ordered)]
        else:
            links = [self._link(resource) for resource in ordered]
        return ",".join([*([self.root] if self.root else []), *versions, *links])

    def _link(self, resource: DeviceResource) -> str:
        link = f"<{resource.path}>"
        if not resource.is_executable and self.tells_observable and resource.observable:
            link += ";obs"
        if resource.auto_observed_token is not None:
            link += f";aobs={self._quoted(str(resource.auto_observed_token))}"
        if self.publishes_values and resource.value is not None:
            text = encode(resource.value, resource.path, TEXT_PLAIN, allow_read_only=True)[0].decode()
            escaped = text.replace("\\", "\\\\").replace('"', '\\"')
            link += f';v="{escaped}"'
        return link

    def _quoted(self, text: str) -> str:
        return f'"{text}"' if self.has_quotes else text
