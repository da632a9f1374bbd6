"""The parameters of a registration and of its update: the query of ``POST /rd`` and ``POST /rd/{id}``.

Source: LwM2M core 1.0 (5.3) and 1.1 (6.2).
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mirror_server.extensions.lwm2m.transport_api import RequestRejected

Version = Literal["1.0", "1.1"]

_LONGEST_NAME = 64
"""As everywhere in the mirror. Source: wire.md 3."""
_DEFAULT_LIFETIME_SECONDS = 86_400
_LONGEST_LIFETIME_SECONDS = 2**32 - 1
_SECONDS = re.compile(r"[0-9]{1,10}")
_VERSION = re.compile(r"(1\.[01])(?:\.[0-9]{1,3})?")
_TRANSPORTS = {"U": "UDP", "T": "TCP", "S": "SMS", "N": "non-IP"}
_BINDING = re.compile(r"[UTSNQ]{1,5}")
_KNOWN = frozenset({"ep", "et", "lt", "b", "Q", "lwm2m"})


@dataclass(slots=True)
class RegistrationParameters:
    """The parameters of a registration; ``binding`` as the device sent it."""

    endpoint_name: str
    endpoint_type: str = ""
    lifetime_seconds: int = _DEFAULT_LIFETIME_SECONDS
    version: Version = "1.0"
    binding: str = "U"
    queue_mode: bool = False


def read_registration(query: Sequence[str]) -> RegistrationParameters:
    """Read the query of a registration; parameters nobody knows are left out.

    Raises:
        RequestRejected: 4.00 for a parameter that is missing, twice, or not what it should be; 4.12 for a version
            that is not spoken.
    """
    told = _told(query)
    # The version first: what the others mean depends on it.
    version = _version(told.get("lwm2m", "1.0"))
    if "ep" not in told:
        raise RequestRejected("4.00", "ep is missing; give the endpoint name as ep=my-sensor")
    binding = _binding(told.get("b", "U"))
    return RegistrationParameters(
        endpoint_name=_name("ep", told["ep"]),
        endpoint_type=_name("et", told["et"]) if told.get("et") else "",
        lifetime_seconds=_lifetime_seconds(told["lt"]) if "lt" in told else _DEFAULT_LIFETIME_SECONDS,
        version=version,
        binding=binding,
        queue_mode="Q" in binding or _says_queue_mode(told),
    )


def read_update(query: Sequence[str], registered: RegistrationParameters) -> RegistrationParameters:
    """Return the parameters after an update; unknown ones, and those that a device cannot change, are left out.

    In LwM2M 1.0 the binding says queue mode, so that a new binding without it ends it. In 1.1 a parameter of its own
    does, and an update without that changes nothing.

    Raises:
        RequestRejected: 4.00 for a parameter that is twice, or not what it should be.
    """
    told = _told(query)
    binding, queue_mode = registered.binding, registered.queue_mode
    if "b" in told:
        binding = _binding(told["b"])
        queue_mode = "Q" in binding or (registered.version == "1.1" and queue_mode)
    return RegistrationParameters(
        registered.endpoint_name,
        registered.endpoint_type,
        _lifetime_seconds(told["lt"]) if "lt" in told else registered.lifetime_seconds,
        registered.version,
        binding,
        _says_queue_mode(told) or queue_mode,
    )


def _told(query: Sequence[str]) -> Mapping[str, str]:
    told: dict[str, str] = {}
    for option in query:
        key, _, value = option.partition("=")
        if key not in _KNOWN:
            continue
        if key in told:
            raise RequestRejected("4.00", f"{key} is given twice; give it once")
        told[key] = value
    return told


def _version(text: str) -> Version:
    version = _VERSION.fullmatch(text)
    if version is None:
        raise RequestRejected("4.12", f"lwm2m={reprlib.repr(text)} is not spoken here; 1.0 and 1.1 are")
    return "1.1" if version[1] == "1.1" else "1.0"


def _name(key: str, text: str) -> str:
    if not 0 < len(text) <= _LONGEST_NAME or not text.isprintable():
        reason = f"{key}={reprlib.repr(text)} is no name; give 1 to {_LONGEST_NAME} printable characters"
        raise RequestRejected("4.00", reason)
    return text


def _lifetime_seconds(text: str) -> int:
    if not _SECONDS.fullmatch(text) or not 1 <= int(text) <= _LONGEST_LIFETIME_SECONDS:
        reason = f"lt={reprlib.repr(text)} is no lifetime; give whole seconds from 1 to {_LONGEST_LIFETIME_SECONDS}"
        raise RequestRejected("4.00", reason)
    return int(text)


def _binding(text: str) -> str:
    if not _BINDING.fullmatch(text) or len(set(text)) < len(text):
        raise RequestRejected("4.00", f"b={reprlib.repr(text)} is no binding; give U, or UQ for queue mode")
    if "U" not in text:
        named = " and ".join(name for letter, name in _TRANSPORTS.items() if letter in text) or "no transport"
        raise RequestRejected("4.00", f"b={text} is {named}, and only UDP is spoken here; give U or UQ")
    return text


def _says_queue_mode(told: Mapping[str, str]) -> bool:
    if told.get("Q"):
        raise RequestRejected("4.00", f"Q={reprlib.repr(told['Q'])} has a value; give Q alone")
    return "Q" in told
