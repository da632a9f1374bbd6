"""The parameters of registrations and updates, which are in the query of ``POST /rd`` and ``POST /rd/{id}``.

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

_MAX_NAME_CHARACTERS = 64
"""The maximum length of an endpoint name in the mirror's API. Source: wire.md 3."""
_DEFAULT_LIFETIME_SECONDS = 86_400
_MAX_LIFETIME_SECONDS = 2**32 - 1
_SECONDS = re.compile(r"[0-9]{1,10}")
_VERSION = re.compile(r"(1\.[01])(?:\.[0-9]{1,3})?")
_TRANSPORTS = {"U": "UDP", "T": "TCP", "S": "SMS", "N": "non-IP"}
_BINDING = re.compile(r"[UTSNQ]{1,5}")
_PARAMETERS = frozenset({"ep", "et", "lt", "b", "Q", "lwm2m"})


@dataclass(slots=True)
class RegistrationParameters:
    """The parameters of a registration. ``binding`` has the same form as in the request."""

    endpoint_name: str
    endpoint_type: str = ""
    lifetime_seconds: int = _DEFAULT_LIFETIME_SECONDS
    version: Version = "1.0"
    binding: str = "U"
    queue_mode: bool = False


def read_registration(query: Sequence[str]) -> RegistrationParameters:
    """Parse the query of a registration. Unknown parameters are ignored.

    Raises:
        RequestRejected: A parameter is missing, duplicate or invalid (4.00), or the version is not supported (4.12).
    """
    parameters = _parameters(query)
    # The version is read first, because it determines the meaning of the other parameters.
    version = _version(parameters.get("lwm2m", "1.0"))
    if "ep" not in parameters:
        raise RequestRejected("4.00", "ep is missing; send the endpoint name as ep=my-sensor")
    binding = _binding(parameters.get("b", "U"))
    return RegistrationParameters(
        endpoint_name=_name("ep", parameters["ep"]),
        endpoint_type=_name("et", parameters["et"]) if parameters.get("et") else "",
        lifetime_seconds=_lifetime_seconds(parameters["lt"]) if "lt" in parameters else _DEFAULT_LIFETIME_SECONDS,
        version=version,
        binding=binding,
        queue_mode="Q" in binding or _has_queue_mode(parameters),
    )


def read_update(query: Sequence[str], registered: RegistrationParameters) -> RegistrationParameters:
    """Return the parameters of a registration after an update. Unknown and unchangeable parameters are ignored.

    In LwM2M 1.0, queue mode is part of the binding, so a new binding without it ends queue mode. In LwM2M 1.1, queue
    mode is a separate parameter, and an update without that parameter does not change it.

    Raises:
        RequestRejected: A parameter is duplicate or invalid (4.00).
    """
    parameters = _parameters(query)
    binding, queue_mode = registered.binding, registered.queue_mode
    if "b" in parameters:
        binding = _binding(parameters["b"])
        queue_mode = "Q" in binding or (registered.version == "1.1" and queue_mode)
    return RegistrationParameters(
        registered.endpoint_name,
        registered.endpoint_type,
        _lifetime_seconds(parameters["lt"]) if "lt" in parameters else registered.lifetime_seconds,
        registered.version,
        binding,
        _has_queue_mode(parameters) or queue_mode,
    )


def _parameters(query: Sequence[str]) -> Mapping[str, str]:
    parameters: dict[str, str] = {}
    for option in query:
        key, _, value = option.partition("=")
        if key not in _PARAMETERS:
            continue
        if key in parameters:
            raise RequestRejected("4.00", f"duplicate parameter {key}; send it once")
        parameters[key] = value
    return parameters


def _version(text: str) -> Version:
    version = _VERSION.fullmatch(text)
    if version is None:
        reason = f"unsupported LwM2M version {reprlib.repr(text)}; supported versions are 1.0 and 1.1"
        raise RequestRejected("4.12", reason)
    return "1.1" if version[1] == "1.1" else "1.0"


def _name(key: str, text: str) -> str:
    if not 0 < len(text) <= _MAX_NAME_CHARACTERS or not text.isprintable():
        reason = f"{key}={reprlib.repr(text)} is not valid; send 1 to {_MAX_NAME_CHARACTERS} printable characters"
        raise RequestRejected("4.00", reason)
    return text


def _lifetime_seconds(text: str) -> int:
    if not _SECONDS.fullmatch(text) or not 1 <= int(text) <= _MAX_LIFETIME_SECONDS:
        reason = f"lt={reprlib.repr(text)} is not a lifetime; send whole seconds from 1 to {_MAX_LIFETIME_SECONDS}"
        raise RequestRejected("4.00", reason)
    return int(text)


def _binding(text: str) -> str:
    if not _BINDING.fullmatch(text) or len(set(text)) < len(text):
        raise RequestRejected("4.00", f"b={reprlib.repr(text)} is not a binding; send U, or UQ for queue mode")
    if "U" not in text:
        transports = " and ".join(name for letter, name in _TRANSPORTS.items() if letter in text) or "no transport"
        raise RequestRejected("4.00", f"b={text} is {transports}, but only UDP is supported; send U or UQ")
    return text


def _has_queue_mode(parameters: Mapping[str, str]) -> bool:
    if parameters.get("Q"):
        raise RequestRejected("4.00", f"Q={reprlib.repr(parameters['Q'])} has a value; send Q without one")
    return "Q" in parameters
