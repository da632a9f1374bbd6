"""The requests, responses and notifications of CoAP, and the interface between the sockets and LwM2M.

All code that uses this module runs on one event loop. Source: RFC 7252, RFC 7641.
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
        address: The address and port, such as ``192.0.2.1:40000`` or ``[2001:db8::1]:40000``.
        is_secure: Whether the endpoint uses DTLS.
        identity: The identity of the endpoint's pre-shared key, or ``None`` without DTLS.
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
    """A request to a device or from a device.

    ``path`` starts with a slash. ``content_format`` and ``accept`` are numbers of CoAP content formats.
    """

    method: Method
    path: str
    query: tuple[str, ...] = ()
    payload: bytes = b""
    content_format: int | None = None
    accept: int | None = None


class Response(NamedTuple):
    """A complete response.

    ``code`` has a form like ``2.05``. ``location`` contains the path segments of a new registration.
    """

    # This class and ObserveNotification are tuples. Thousands arrive per second, and a tuple is created faster.

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

    ``sequence`` is the value of the Observe option. It is ``None`` if the peer responded without starting an
    observation.
    """

    response: Response
    sequence: int | None = None


class ObserveNotification(NamedTuple):
    """A response that no request waits for. It belongs to an observation, or the device sent it on its own.

    ``sequence`` is the value of the Observe option. ``is_complete`` is false if this is only the first of several
    blocks. In that case the caller must read the remaining blocks.
    """

    peer: Peer
    token: bytes
    sequence: int | None
    response: Response
    is_confirmable: bool
    is_complete: bool


class RequestRejected(Exception):
    """A request of a device is rejected. ``code`` has a form like ``4.00``, and ``reason`` becomes the payload."""

    def __init__(self, code: str, reason: str, max_age_seconds: int | None = None) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.response = Response(code, reason.encode(), 0, max_age_seconds)


class NoResponse(Exception):
    """The peer did not respond to a request, even after all retransmissions."""


class Unreachable(Exception):
    """Nothing can be sent to the peer, because its address rejects datagrams or its DTLS session has ended.

    ``may_have_arrived`` is true if an earlier datagram of the request may have reached the peer.
    """

    def __init__(self, reason: str = "", *, may_have_arrived: bool = False) -> None:
        super().__init__(reason)
        self.may_have_arrived = may_have_arrived


class CannotListen(CannotServe):
    """The sockets cannot be opened, or CoAP or DTLS is not installed. The message has the reason and the cure."""


@dataclass(slots=True)
class Counts:
    """Counters of messages since the sockets were opened.

    ``dropped`` counts the datagrams that were ignored. It includes the datagrams that did not fit into the kernel's
    buffer, and the datagrams above the rate limit of a device. ``sessions`` is the current number of DTLS sessions.
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
    """The interface of an object that handles messages of devices. All methods are called on the event loop."""

    async def handle(self, peer: Peer, request: Request) -> Response:
        """Return the response to a complete request."""
        ...

    def notified(self, notification: ObserveNotification) -> bool:
        """Process a notification.

        Return ``False`` if its token is unknown, so that the caller sends a CoAP Reset message.
        """
        ...

    def rate_exceeded(self, notification: ObserveNotification) -> None:
        """End the observation of a device that exceeds its rate limit.

        The caller sends a CoAP Reset message to the device.
        """
        ...

    def session_ended(self, peer: Peer) -> None:
        """Handle the end of a peer's DTLS session. The peer is unreachable until its next message."""
        ...
