"""The UDP sockets: aiocoap's, which knows to which address a datagram came and hears of ports that are closed.

The only module that imports aiocoap. What it touches that aiocoap does not promise to keep is held by a test each:
``MessageInterfaceUDP6._create_transport_endpoint``, ``datagram_msg_received``, ``datagram_errqueue_received``,
``error_received`` and ``send`` of the same class, what it calls of its manager (``dispatch_error``), ``max_size`` and
``_read_ready`` of its transport, and the fields ``sockaddr`` and ``pktinfo`` of ``UDP6EndpointAddress``.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import socket
import struct
import sys
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, cast

from aiocoap.transports.udp6 import MessageInterfaceUDP6, UDP6EndpointAddress
from aiocoap.util import socknumbers

from mirror_server.extensions.lwm2m.coap.limits import CoapLimits
from mirror_server.extensions.lwm2m.transport_api import CannotListen, Counts, Peer, Unreachable

_log = logging.getLogger(__name__)
_LARGEST_DATAGRAM = 65_535
_ANCILLARY_BYTES = 1024
_DATAGRAMS_AT_ONCE = 150
"""The datagrams read in one turn of the loop; one at a time the loop itself is half of the cost."""
_REST_SECONDS = 0.04
"""Under load the socket is read after this pause and not at each datagram: to wake the thread costs more than to read
one, and others wait for it. The pause is shorter if more datagrams than are read in one turn would come meanwhile, so
that they fit in a buffer that the kernel grants anybody.
"""
_MANY = 40
"""More datagrams than this within a pause count as load."""
_TRUNCATED = int(socket.MSG_TRUNC)
"""As a number: an enumeration takes longer for ``&`` than to receive a datagram."""
_PKTINFO = int(socket.IPV6_PKTINFO)
_PASSING = (errno.EAGAIN, errno.ENOBUFS)
"""Errors of a kernel that has no room for a datagram: it counts as lost on the way, and will be sent again."""
_IP_MULTICAST_ALL = 49
"""Without this option Linux delivers datagrams to groups that any program of the machine joined."""
_MAPPED = "::ffff:"
_SO_MEMINFO = 55
_MEMINFO = struct.Struct("9I")
"""The memory of a socket in Linux; the last number counts the datagrams dropped for want of room."""
_DROPS_SECONDS = 1.0
"""The interval at which the kernel's counter is read."""
_LINE_SECONDS = 10.0
"""The least time between two warnings in the log."""


class Receiver(Protocol):
    """The receiver of datagrams."""

    def received(self, peer: Peer, datagram: bytes) -> None:
        """Handle a datagram."""
        ...

    def failed(self, peer: Peer, reason: str) -> None:
        """Handle the error that nothing reaches a peer."""
        ...


class Transport(Protocol):
    """Sends datagrams to peers, and receives theirs."""

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        ...

    def send(self, peer: Peer, datagram: bytes) -> None:
        """Send a datagram.

        Raises:
            Unreachable: There is no way to the peer.
        """
        ...

    async def close(self) -> None:
        """Close the socket."""
        ...


class _Way(NamedTuple):
    """A peer, and aiocoap's name of it."""

    peer: Peer
    remote: Any


class _Outgoing(NamedTuple):
    """A datagram with the attributes that aiocoap's socket needs to send it."""

    remote: Any
    datagram: bytes

    def encode(self) -> bytes:
        return self.datagram


class _Udp6(MessageInterfaceUDP6):
    """aiocoap's socket, changed to pass on datagrams as bytes, and many at a time."""

    _taken = 0
    _lately = 0.0
    _looked_at = 0.0
    _resting: asyncio.TimerHandle | None = None
    _error: Exception | None = None

    def listen(self) -> None:
        """Have :meth:`look` called when a datagram arrives."""
        self._loop = asyncio.get_running_loop()
        self._file = self.transport.get_extra_info("socket").fileno()
        self._loop.add_reader(self._file, self.look)

    def look(self) -> None:
        """Read the datagrams; under load the next call is after a pause, however many there are by then."""
        self._taken = 0
        try:
            self._take_errors()
            self.transport._read_ready()
        finally:
            self._rest_or_listen()

    def _rest_or_listen(self) -> None:
        now = self._loop.time()
        self._lately = self._taken + self._lately * math.exp((self._looked_at - now) / _REST_SECONDS)
        self._looked_at = now
        if self._lately > _MANY and self._taken <= _DATAGRAMS_AT_ONCE:
            self._loop.remove_reader(self._file)
            rest_seconds = _REST_SECONDS * min(1, _DATAGRAMS_AT_ONCE / self._lately)
            self._resting = self._loop.call_later(rest_seconds, self.look)
        elif self._resting is not None:
            self._resting = None
            self._loop.add_reader(self._file, self.look)

    def _take_errors(self) -> None:
        """Read the errors of closed ports: they are in the receive buffer, where datagrams need the room."""
        if not socknumbers.HAS_RECVERR:
            return
        listening = self.transport.get_extra_info("socket")
        for _ in range(_DATAGRAMS_AT_ONCE):
            try:
                received = listening.recvmsg(_ANCILLARY_BYTES, _ANCILLARY_BYTES, socknumbers.MSG_ERRQUEUE)
            except OSError:  # nothing is left
                return
            self.datagram_errqueue_received(*received)

    def error_received(self, exc: Exception) -> None:
        """Store an error of sending; errors of peers are in the error queue."""
        self._error = exc

    def sending_error(self, message: _Outgoing) -> Exception | None:
        """Send a message; return the error, if there is one.

        The first error may be of another peer, whose port is closed: the kernel returns it from the next call, and does
        not send.
        """
        for _ in range(2):
            self._error = None
            self.send(message)
            if self._error is None:
                break
        return self._error

    def datagram_msg_received(self, data: bytes, ancdata: Any, flags: int, address: Any) -> None:
        manager: Udp6Transport = self._ctx
        manager.take(data, ancdata, flags, address)
        self._taken = 1
        listening = self.transport.get_extra_info("socket")
        while self._taken <= _DATAGRAMS_AT_ONCE:
            self._taken += 1
            try:
                received = listening.recvmsg(_LARGEST_DATAGRAM, _ANCILLARY_BYTES)
            except BlockingIOError:  # nothing is left
                self._taken -= 1
                return
            except OSError:  # of a peer, which the error queue names
                continue
            manager.take(*received)

    async def shutdown(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
        await super().shutdown()


class _KernelDrops:
    """Counts the datagrams for which the receive buffer of a socket had no room, until it is stopped."""

    def __init__(self, listening: socket.socket, counts: Counts) -> None:
        self._socket = listening
        self._counts = counts
        self._loop = asyncio.get_running_loop()
        self._counted = 0
        self._logged = 0
        self._logged_at = -math.inf
        self._timer = self._loop.call_later(_DROPS_SECONDS, self._look)

    def stop(self) -> None:
        """Stop counting."""
        self._timer.cancel()

    def _look(self) -> None:
        self._timer = self._loop.call_later(_DROPS_SECONDS, self._look)
        dropped = _dropped_by_kernel(self._socket)
        self._counts.dropped += dropped - self._counted
        self._counted = dropped
        now = self._loop.time()
        if dropped > self._logged and now - self._logged_at >= _LINE_SECONDS:
            self._logged, self._logged_at = dropped, now
            _log.warning(
                "The system dropped datagrams of devices, %d so far: more came than the server takes, and the receive "
                "buffer of %d bytes was full. Cure: fewer messages, or a larger buffer by sysctl -w net.core.rmem_max",
                dropped,
                _granted_bytes(self._socket),
            )


def _dropped_by_kernel(listening: socket.socket) -> int:
    """Return the number of datagrams that the kernel dropped because the buffer was full; 0 if it is unknown."""
    if sys.platform != "linux":
        return 0
    try:
        return int(_MEMINFO.unpack(listening.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size))[-1])
    except (OSError, struct.error):  # a kernel older than 4.12
        return 0


class Udp6Transport:
    """A socket of IPv6, which carries IPv4 too; aiocoap's socket takes it for its message manager."""

    def __init__(self, receiver: Receiver, limits: CoapLimits, counts: Counts, drops: _KernelDrops) -> None:
        self._receiver = receiver
        self._counts = counts
        self._drops = drops
        remember = lru_cache(limits.remembered_addresses)
        self.remote = remember(lambda address: UDP6EndpointAddress(sockaddr_of(address), self._interface))
        """aiocoap's name of a peer, by its address; with the address of ours that it sent to."""
        self._way = remember(lambda sockaddr: _Way(Peer(address_text(sockaddr)), self.remote(address_text(sockaddr))))
        self._interface: _Udp6

    async def open(self, bound: socket.socket) -> None:
        """Begin to receive."""
        loop = asyncio.get_running_loop()
        self._interface = await _Udp6._create_transport_endpoint(bound, self, _aiocoap_log, loop)
        self._interface.transport.max_size = _LARGEST_DATAGRAM
        self._interface.listen()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        host, port, *_ = self._interface.transport.get_extra_info("socket").getsockname()
        return _plain(host), port

    def send(self, peer: Peer, datagram: bytes) -> None:
        """Send a datagram; an error is reported to the receiver."""
        try:
            outgoing = _Outgoing(self.remote(peer.address), datagram)
            error = self._interface.sending_error(outgoing)
        except (ValueError, OSError) as failure:
            raise Unreachable(f"{peer.address}: {failure}") from None
        if error is not None:
            self.dispatch_error(error, outgoing.remote)

    async def close(self) -> None:
        """Close the socket."""
        self._drops.stop()
        await self._interface.shutdown()

    def take(self, datagram: bytes, ancillary: Any, flags: int, sockaddr: Any) -> None:
        """Pass a datagram to the receiver."""
        local = None
        for _, kind, data in ancillary:
            if kind == _PKTINFO:
                local = data
        is_to_group = local is not None and _is_multicast(local)
        if flags & _TRUNCATED or is_to_group or not sockaddr[1]:  # nothing can be sent to port 0
            self._counts.dropped += 1
            return
        way = self._way(sockaddr)
        way.remote.pktinfo = local
        self._receiver.received(way.peer, datagram)

    def dispatch_error(self, error: Exception, remote: Any) -> None:
        """Handle an error of sending, or of a port that is closed."""
        if isinstance(error, OSError) and error.errno in _PASSING:
            self._counts.dropped += 1
            return
        reason = getattr(error, "strerror", None) or str(error)
        self._receiver.failed(self._way(remote.sockaddr).peer, reason)


class Ipv4Transport(asyncio.DatagramProtocol):
    """A socket of IPv4 alone, where the kernel has no IPv6; it does not hear of ports that are closed."""

    def __init__(self, receiver: Receiver, limits: CoapLimits, counts: Counts, drops: _KernelDrops) -> None:
        self._receiver = receiver
        self._peer = lru_cache(limits.remembered_addresses)(lambda address: Peer(f"{address[0]}:{address[1]}"))
        self._counts = counts
        self._drops = drops
        self._closed = asyncio.get_running_loop().create_future()
        self._transport: asyncio.DatagramTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the socket."""
        self._transport = cast(asyncio.DatagramTransport, transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Note that the socket is closed."""
        self._closed.set_result(None)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Handle a datagram; nothing can be sent to port 0."""
        if addr[1]:
            self._receiver.received(self._peer(addr), data)
        else:
            self._counts.dropped += 1

    def error_received(self, exc: Exception) -> None:  # noqa: ARG002 - asyncio's signature
        """Count an error of sending, of an unknown peer."""
        self._counts.dropped += 1

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        host, port = self._transport.get_extra_info("sockname")
        return host, port

    def send(self, peer: Peer, datagram: bytes) -> None:
        """Send a datagram."""
        host, _, port = peer.address.rpartition(":")
        if host.startswith("["):
            raise Unreachable(f"{peer.address}: this machine has no IPv6")
        self._transport.sendto(datagram, (host, int(port)))

    async def close(self) -> None:
        """Close the socket."""
        self._drops.stop()
        self._transport.close()
        await self._closed


def has_ipv6() -> bool:
    """Whether the kernel has sockets of IPv6."""
    try:
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).close()
    except OSError:
        return False
    return True


async def open_socket(address: tuple[str, int], receiver: Receiver, limits: CoapLimits, counts: Counts) -> Transport:
    """Listen at an address, host and port.

    Raises:
        CannotListen: The address is taken, or not of this machine.
    """
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if has_ipv6() else socket.AF_INET
    bound = await _bound_socket(loop, address, family, limits)
    drops = _KernelDrops(bound, counts)
    if family == socket.AF_INET:
        _, plain = await loop.create_datagram_endpoint(
            lambda: Ipv4Transport(receiver, limits, counts, drops), sock=bound
        )
        return plain
    transport = Udp6Transport(receiver, limits, counts, drops)
    await transport.open(bound)
    return transport


_aiocoap_log = logging.getLogger(f"{__name__}.aiocoap")
_aiocoap_log.setLevel(logging.CRITICAL)
"""Silent: the errors of aiocoap's socket are raised or counted, and its lines can have a traceback."""


async def _bound_socket(
    loop: asyncio.AbstractEventLoop, address: tuple[str, int], family: socket.AddressFamily, limits: CoapLimits
) -> socket.socket:
    """Open a socket without ``SO_REUSEPORT``, by which a second server would get half of the devices of the first."""
    host, port = address
    flags = socket.AI_PASSIVE | (socket.AI_V4MAPPED if family == socket.AF_INET6 else 0)
    try:
        found = await loop.getaddrinfo(host, port, family=family, type=socket.SOCK_DGRAM, flags=flags)
    except OSError as error:
        raise CannotListen(f"{host}:{port} is no address of this machine ({error.strerror or error})") from None
    opened = socket.socket(family, socket.SOCK_DGRAM)
    try:
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        elif sys.platform == "linux":
            opened.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
        opened.setblocking(False)
        opened.bind(found[0][4])
        _enlarge_buffer(opened, limits.receive_buffer_bytes)
    except OSError as error:
        opened.close()
        raise CannotListen(_why_not(host, port, error)) from None
    return opened


def _why_not(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"UDP port {port} of {host} is taken: stop what listens there, or give another port"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine: give one that it has"
    if error.errno == errno.EACCES:
        return f"UDP port {port} may not be opened by this user: give one from 1024 on"
    return f"cannot listen at {host}:{port}: {error.strerror or error}"


def _enlarge_buffer(opened: socket.socket, wanted: int) -> None:
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, wanted)
    granted = _granted_bytes(opened)
    if granted < wanted:
        _log.warning(
            "The receive buffer for devices has %d bytes of the %d wished for: bursts may be lost. Cure: sysctl -w "
            "net.core.rmem_max=%d",
            granted,
            wanted,
            wanted,
        )


def _granted_bytes(opened: socket.socket) -> int:
    return opened.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2  # the kernel returns twice what it grants


def address_text(sockaddr: Any) -> str:
    """Return the address of a :class:`Peer` for an address of an IPv6 socket."""
    host, port, _, scope = sockaddr
    plain = _plain(host)
    if ":" not in plain:
        return f"{plain}:{port}"
    return f"[{plain}%{scope}]:{port}" if scope else f"[{plain}]:{port}"


def _plain(host: str) -> str:
    mapped = host.removeprefix(_MAPPED)
    return mapped if "." in mapped else host


def sockaddr_of(address: str) -> tuple[str, int, int, int]:
    """Return the address of an IPv6 socket for that of a :class:`Peer`.

    Raises:
        ValueError: It is not valid.
    """
    host, _, port_text = address.rpartition(":")
    port = int(port_text)
    if not 0 < port < 65_536:
        raise ValueError(f"no port: {port_text}")
    if not host.startswith("["):
        return _MAPPED + host, port, 0, 0
    plain, _, scope = host[1:-1].partition("%")
    return plain, port, 0, int(scope or 0)


_MAPPED_BYTES = bytes(10) + b"\xff\xff"


@lru_cache
def _is_multicast(local: bytes) -> bool:
    """Whether a datagram was addressed to a group, by the address in the socket's ancillary data."""
    return local[0] == 0xFF or (local.startswith(_MAPPED_BYTES) and local[12] >= 224)
