"""Requests, responses and notifications of CoAP, and the interface between the sockets and LwM2M.

Everything here runs on one event loop. Source: RFC 7252, RFC 7641.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from mirror_server.core.errors import CannotServe

Method = Literal["GET", "POST", "PUT", "DELETE"]

INSTALL_DTLS = (
    "pip install 'device-state-mirror[lwm2m-dtls]'; it is compiled, which needs (on Debian)"
    " apt-get install autoconf automake gcc libc6-dev make python3-dev"
)
"""The command that installs DTLS, for error messages."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A remote CoAP endpoint.

    Attributes:
        address: Address and port, ``192.0.2.1:40000`` or ``[2001:db8::1]:40000``.
        is_secure: Whether it uses DTLS.
        identity: The identity of its pre-shared key. ``None`` without DTLS.
    """

    address: str
    is_secure: bool = False
    identity: str | None = None

    @property
    def host(self) -> str:
        """The address without its port."""
        return self.address.rpartition(":")[0]


@dataclass(frozen=True, slots=True)
class Request:
    """A request to or from a device.

    ``path`` starts with a slash. ``content_format`` and ``accept`` are CoAP content format numbers.
    """

    method: Method
    path: str
    query: tuple[str, ...] = ()
    payload: bytes = b""
    content_format: int | None = None
    accept: int | None = None


class Response(NamedTuple):
    """A complete response.

    ``code`` is written like ``2.05``. ``location`` has the path segments of a new registration.
    """

    # A tuple, like ObserveNotification: thousands arrive per second, and a tuple is created faster than an object.

    code: str
    payload: bytes = b""
    content_format: int | None = None
    max_age_seconds: int | None = None
    location: tuple[str, ...] = ()

    @property
    def is_success(self) -> bool:
        """Whether the request succeeded."""
        return self.code.startswith("2.")


class Observed(NamedTuple):
    """The response to an observe request.

    ``sequence`` is its Observe option. ``None`` if the peer responded without starting an observation.
    """

    response: Response
    sequence: int | None = None


class ObserveNotification(NamedTuple):
    """A response for which no request waits. It belongs to an observation, or the device sends it on its own.

    ``sequence`` is its Observe option. ``is_complete`` is false for the first of several blocks. The caller has to read
    the remaining blocks.
    """

    peer: Peer
    token: bytes
    sequence: int | None
    response: Response
    is_confirmable: bool
    is_complete: bool


class RequestRejected(Exception):
    """A request of a device is rejected. ``code`` is written like ``4.00``; ``reason`` becomes the payload."""

    def __init__(self, code: str, reason: str, max_age_seconds: int | None = None) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.response = Response(code, reason.encode(), 0, max_age_seconds)


class NoResponse(Exception):
    """The peer did not respond to any retransmission."""


class Unreachable(Exception):
    """Nothing can be sent to the peer, because its address rejects datagrams or its DTLS session has ended.

    ``may_have_arrived`` is true if an earlier datagram of the request may have reached the peer.
    """

    def __init__(self, reason: str = "", *, may_have_arrived: bool = False) -> None:
        super().__init__(reason)
        self.may_have_arrived = may_have_arrived


class CannotListen(CannotServe):
    """The sockets cannot be opened, or CoAP or DTLS is not installed. The message has the reason and the fix."""


@dataclass(slots=True)
class Counts:
    """Counters of messages since the sockets were opened.

    ``dropped`` counts ignored datagrams. It includes messages that did not fit into the kernel's buffer, and messages
    above the rate limit of a device. ``sessions`` is the current number of DTLS sessions.
    """

    requests_received: int = 0
    responses_received: int = 0
    notifications_received: int = 0
    acknowledgements_received: int = 0
    resets_received: int = 0
    requests_sent: int = 0
    responses_sent: int = 0
    acknowledgements_sent: int = 0
    resets_sent: int = 0
    retransmissions: int = 0
    duplicates: int = 0
    unanswered: int = 0
    unreachable: int = 0
    rejected: int = 0
    dropped: int = 0
    handshakes: int = 0
    handshake_failures: int = 0
    sessions: int = 0


class Handler(Protocol):
    """Handles messages of devices. All methods are called on the event loop."""

    async def handle(self, peer: Peer, request: Request) -> Response:
        """Return the response to a complete request."""
        ...

    def notified(self, notification: ObserveNotification) -> bool:
        """Process a notification. Return ``False`` for an unknown token: the device then gets a reset."""
        ...

    def rate_exceeded(self, notification: ObserveNotification) -> None:
        """End the observation of a device above its rate limit. The device gets a reset."""
        ...

    def session_ended(self, peer: Peer) -> None:
        """Note that the DTLS session of a peer ended: the peer is unreachable until its next message."""
        ...
