"""Requests, responses and notifications of CoAP, and the interface between the sockets and LwM2M.

All of it happens on one event loop. Source: RFC 7252, RFC 7641.
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
"""How to install DTLS, for error messages."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The other side of an exchange.

    Attributes:
        address: Address and port, ``192.0.2.1:40000`` or ``[2001:db8::1]:40000``.
        is_secure: Whether it uses DTLS.
        identity: The identity of its pre-shared key; ``None`` without DTLS.
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
    """A request to a device, or from one; ``path`` begins with a slash, the numbers are CoAP's content formats."""

    method: Method
    path: str
    query: tuple[str, ...] = ()
    payload: bytes = b""
    content_format: int | None = None
    accept: int | None = None


class Response(NamedTuple):
    """A whole response; ``code`` is written ``2.05``. ``location`` is the path of a new registration, as segments.

    A tuple as the notification it is in: thousands come in a second.
    """

    code: str
    payload: bytes = b""
    content_format: int | None = None
    max_age_seconds: int | None = None
    location: tuple[str, ...] = ()

    @property
    def is_success(self) -> bool:
        """Whether the request was done."""
        return self.code.startswith("2.")


class Observed(NamedTuple):
    """The response to a request to observe.

    ``sequence`` is its Observe option; ``None`` if the peer responded, but observes nothing.
    """

    response: Response
    sequence: int | None = None


class ObserveNotification(NamedTuple):
    """A message that no request waits for: of an observation, or unasked.

    ``sequence`` is its Observe option; ``is_whole`` is false where it is the first block of more, which are to be read.
    """

    peer: Peer
    token: bytes
    sequence: int | None
    response: Response
    is_confirmable: bool
    is_whole: bool


class RequestRejected(Exception):
    """A request of a device is rejected: the code of the response, as ``4.00``, and the reason for its payload."""

    def __init__(self, code: str, reason: str, max_age_seconds: int | None = None) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.response = Response(code, reason.encode(), 0, max_age_seconds)


class NoResponse(Exception):
    """The peer did not respond to any retransmission."""


class Unreachable(Exception):
    """Nothing can be sent to the peer: its address does not take it, or its DTLS session is gone.

    ``may_have_arrived`` is true if an earlier datagram of the request may have reached the peer, which then acted.
    """

    def __init__(self, reason: str = "", *, may_have_arrived: bool = False) -> None:
        super().__init__(reason)
        self.may_have_arrived = may_have_arrived


class CannotListen(CannotServe):
    """The sockets cannot be opened, or CoAP or DTLS is not installed; the message says why and what to do."""


@dataclass(slots=True)
class Counts:
    """The messages received and sent since the sockets were opened.

    ``dropped`` are datagrams that led to nothing, those that the kernel had no room for and those beyond the share of
    a device among them; ``sessions`` the DTLS sessions there are now.
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
    refused: int = 0
    dropped: int = 0
    handshakes: int = 0
    handshake_failures: int = 0
    sessions: int = 0


class Handler(Protocol):
    """Handles what devices send; called on the event loop."""

    async def handle(self, peer: Peer, request: Request) -> Response:
        """Answer a request of a device, which came whole."""
        ...

    def notified(self, notification: ObserveNotification) -> bool:
        """Take a notification; ``False`` where its token says nothing, so that the device is told to stop."""
        ...

    def flooded(self, notification: ObserveNotification) -> None:
        """End the observation of a notification that is beyond the share of its device, which gets a reset."""
        ...

    def session_ended(self, peer: Peer) -> None:
        """The DTLS session of a peer is gone: it cannot be reached before it speaks again."""
        ...
