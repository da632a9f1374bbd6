"""The UDP sockets. aiocoap's socket is used because it reports the local address of each datagram and closed ports.

This is the only module that imports aiocoap. Tests check each private part of aiocoap that this module uses:

- ``MessageInterfaceUDP6``: ``_create_transport_endpoint``, ``datagram_msg_received``, ``datagram_errqueue_received``,
  ``error_received``, ``send``, and its call of ``dispatch_error`` of its manager;
- its transport: ``max_size`` and ``_read_ready``;
- ``UDP6EndpointAddress``: ``sockaddr`` and ``pktinfo``.
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
_DATAGRAMS_PER_TURN = 150
"""The maximum number of datagrams that are read in one turn of the event loop.

With one datagram per turn, the loop itself is half of the cost.
"""
_PAUSE_SECONDS = 0.04
"""The pause after which the socket is read under load, instead of for each datagram.

Waking the thread costs more than reading a datagram, and delays other threads. The pause is shorter if more datagrams
would arrive during it than can be read in one turn. So the datagrams fit into the buffer size that the kernel allows by
default.
"""
_LOAD_DATAGRAMS = 40
"""The number of datagrams within a pause above which the socket is under load."""
_TRUNCATED = int(socket.MSG_TRUNC)
"""The flag as a plain integer, because ``&`` with an enum member takes longer than receiving a datagram."""
_PKTINFO = int(socket.IPV6_PKTINFO)
_TRANSIENT_ERRORS = (errno.EAGAIN, errno.ENOBUFS)
"""The errors of a full kernel buffer. The datagram counts as lost on the network, and will be retransmitted."""
_IP_MULTICAST_ALL = 49
"""The socket option that is switched off so that Linux does not deliver datagrams of multicast groups.

By default, Linux delivers the datagrams of all groups that any program on the machine has joined.
"""
_MAPPED = "::ffff:"
_SO_MEMINFO = 55
_MEMINFO = struct.Struct("9I")
"""The memory information of a socket in Linux. The last number counts datagrams dropped because of a full buffer."""
_DROPS_SECONDS = 1.0
"""The interval at which the kernel's counter of dropped datagrams is read."""
_LINE_SECONDS = 10.0
"""The minimum time between two warnings in the log."""


class Receiver(Protocol):
    """The interface of an object that receives datagrams."""

    def received(self, peer: Peer, datagram: bytes) -> None:
        """Handle a datagram."""
        ...

    def failed(self, peer: Peer, reason: str) -> None:
        """Handle an error that makes a peer unreachable."""
        ...


class Transport(Protocol):
    """The interface of an object that sends and receives datagrams."""

    @property
    def address(self) -> tuple[str, int]:
        """The host and port on which the socket listens."""
        ...

    def send(self, peer: Peer, datagram: bytes) -> None:
        """Send a datagram.

        Raises:
            Unreachable: Nothing can be sent to the peer.
        """
        ...

    async def close(self) -> None:
        """Close the socket."""
        ...


class _CachedPeer(NamedTuple):
    """A peer, with aiocoap's object for its address."""

    peer: Peer
    remote: Any


class _Outgoing(NamedTuple):
    """A datagram, with the attributes that aiocoap's socket needs in order to send it."""

    remote: Any
    datagram: bytes

    def encode(self) -> bytes:
        return self.datagram


class _Udp6(MessageInterfaceUDP6):
    """aiocoap's socket, changed so that it passes on datagrams as bytes and in batches."""

    _read_count = 0
    _recent_count = 0.0
    _read_at = 0.0
    _pause_timer: asyncio.TimerHandle | None = None
    _error: Exception | None = None

    def listen(self) -> None:
        """Call :meth:`read_datagrams` whenever a datagram arrives."""
        self._loop = asyncio.get_running_loop()
        self._file = self.transport.get_extra_info("socket").fileno()
        self._loop.add_reader(self._file, self.read_datagrams)

    def read_datagrams(self) -> None:
        """Read the available datagrams. Under load, the next call follows after a pause."""
        self._read_count = 0
        try:
            self._read_errors()
            self.transport._read_ready()
        finally:
            self._pause_or_listen()

    def _pause_or_listen(self) -> None:
        now = self._loop.time()
        # This is approximately the number of datagrams within the last pause. Earlier datagrams count exponentially
        # less.
        self._recent_count = self._read_count + self._recent_count * math.exp((self._read_at - now) / _PAUSE_SECONDS)
        self._read_at = now
        # If this turn read the maximum number, more datagrams are available, so there is no pause.
        if self._recent_count > _LOAD_DATAGRAMS and self._read_count <= _DATAGRAMS_PER_TURN:
            self._loop.remove_reader(self._file)
            pause_seconds = _PAUSE_SECONDS * min(1, _DATAGRAMS_PER_TURN / self._recent_count)
            self._pause_timer = self._loop.call_later(pause_seconds, self.read_datagrams)
        elif self._pause_timer is not None:
            self._pause_timer = None
            self._loop.add_reader(self._file, self.read_datagrams)

    def _read_errors(self) -> None:
        """Read the errors of closed ports, because they take up space in the receive buffer."""
        if not socknumbers.HAS_RECVERR:
            return
        listening = self.transport.get_extra_info("socket")
        for _ in range(_DATAGRAMS_PER_TURN):
            try:
                received = listening.recvmsg(_ANCILLARY_BYTES, _ANCILLARY_BYTES, socknumbers.MSG_ERRQUEUE)
            except OSError:  # nothing is left
                return
            self.datagram_errqueue_received(*received)

    def error_received(self, exc: Exception) -> None:
        """Store an error of sending. The errors of peers are in the error queue instead."""
        self._error = exc

    def sending_error(self, message: _Outgoing) -> Exception | None:
        """Send a message. Return the error, or ``None`` if the message was sent.

        The first error may belong to another peer whose port is closed. In that case the kernel returns that error from
        the next call instead of sending the message. So a failed attempt is repeated once.
        """
        for _ in range(2):
            self._error = None
            self.send(message)
            if self._error is None:
                break
        return self._error

    def datagram_msg_received(self, data: bytes, ancdata: Any, flags: int, address: Any) -> None:
        manager: Udp6Transport = self._ctx
        # aiocoap reads one datagram in each turn of the event loop and calls this method. The other datagrams are read
        # here.
        manager.pass_on(data, ancdata, flags, address)
        self._read_count = 1
        listening = self.transport.get_extra_info("socket")
        while self._read_count <= _DATAGRAMS_PER_TURN:
            self._read_count += 1
            try:
                received = listening.recvmsg(_LARGEST_DATAGRAM, _ANCILLARY_BYTES)
            except BlockingIOError:  # nothing is left
                self._read_count -= 1
                return
            except OSError:  # an error of a peer, which is also in the error queue
                continue
            manager.pass_on(*received)

    async def shutdown(self) -> None:
        if self._pause_timer is not None:
            self._pause_timer.cancel()
        await super().shutdown()


class _KernelDrops:
    """Counts the datagrams that did not fit into the receive buffer of a socket, until it is stopped."""

    def __init__(self, listening: socket.socket, counts: Counts) -> None:
        self._socket = listening
        self._counts = counts
        self._loop = asyncio.get_running_loop()
        self._counted = 0
        self._logged = 0
        self._logged_at = -math.inf
        self._timer = self._loop.call_later(_DROPS_SECONDS, self._count_drops)

    def stop(self) -> None:
        """Stop counting dropped datagrams."""
        self._timer.cancel()

    def _count_drops(self) -> None:
        self._timer = self._loop.call_later(_DROPS_SECONDS, self._count_drops)
        dropped = _dropped_by_kernel(self._socket)
        self._counts.dropped += dropped - self._counted
        self._counted = dropped
        now = self._loop.time()
        if dropped > self._logged and now - self._logged_at >= _LINE_SECONDS:
            self._logged, self._logged_at = dropped, now
            _log.warning(
                "The system dropped datagrams of devices, %d so far: they came faster than the server reads, and the "
                "receive buffer of %d bytes was full. Send less, or enlarge the buffer: sysctl -w net.core.rmem_max",
                dropped,
                _granted_bytes(self._socket),
            )


def _dropped_by_kernel(listening: socket.socket) -> int:
    """Return the number of datagrams that the kernel dropped because the buffer was full, or 0 if it is unknown."""
    if sys.platform != "linux":
        return 0
    try:
        return int(_MEMINFO.unpack(listening.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size))[-1])
    except (OSError, struct.error):  # a kernel older than 4.12
        return 0


class Udp6Transport:
    """An IPv6 socket that also carries IPv4. It is the message manager of aiocoap's socket."""

    def __init__(self, receiver: Receiver, limits: CoapLimits, counts: Counts, drops: _KernelDrops) -> None:
        self._receiver = receiver
        self._counts = counts
        self._drops = drops
        remember = lru_cache(limits.remembered_addresses)
        self.remote = remember(lambda address: UDP6EndpointAddress(sockaddr_of(address), self._interface))
        """A function that returns aiocoap's object for the address of a peer.

        The object includes the local address to which the peer sent its last datagram.
        """
        # While a peer is cached, all messages of its address have the same Peer object, by which duplicates are
        # recognized.
        self._cached_peer = remember(
            lambda sockaddr: _CachedPeer(Peer(address_text(sockaddr)), self.remote(address_text(sockaddr)))
        )
        self._interface: _Udp6

    async def open(self, bound: socket.socket) -> None:
        """Start to receive datagrams."""
        loop = asyncio.get_running_loop()
        self._interface = await _Udp6._create_transport_endpoint(bound, self, _aiocoap_log, loop)
        # The default of aiocoap, 4096 bytes, would truncate larger datagrams.
        self._interface.transport.max_size = _LARGEST_DATAGRAM
        self._interface.listen()

    @property
    def address(self) -> tuple[str, int]:
        """The host and port on which the socket listens."""
        host, port, *_ = self._interface.transport.get_extra_info("socket").getsockname()
        return _plain(host), port

    def send(self, peer: Peer, datagram: bytes) -> None:
        """Send a datagram. If the socket returns an error, the error is reported to the receiver."""
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

    def pass_on(self, datagram: bytes, ancillary: Any, flags: int, sockaddr: Any) -> None:
        """Pass a datagram to the receiver."""
        local = None
        for _, kind, data in ancillary:
            if kind == _PKTINFO:
                local = data
        is_to_group = local is not None and _is_multicast(local)
        if flags & _TRUNCATED or is_to_group or not sockaddr[1]:  # nothing can be sent to port 0
            self._counts.dropped += 1
            return
        cached = self._cached_peer(sockaddr)
        # A response is sent from the address to which the device sent its request. Otherwise a router would not forward
        # it.
        cached.remote.pktinfo = local
        self._receiver.received(cached.peer, datagram)

    def dispatch_error(self, error: Exception, remote: Any) -> None:
        """Handle an error of sending, or the error of a closed port."""
        if isinstance(error, OSError) and error.errno in _TRANSIENT_ERRORS:
            self._counts.dropped += 1
            return
        reason = getattr(error, "strerror", None) or str(error)
        self._receiver.failed(self._cached_peer(remote.sockaddr).peer, reason)


class Ipv4Transport(asyncio.DatagramProtocol):
    """An IPv4 socket, which is used if the kernel has no IPv6. It does not report closed ports."""

    def __init__(self, receiver: Receiver, limits: CoapLimits, counts: Counts, drops: _KernelDrops) -> None:
        self._receiver = receiver
        self._peer = lru_cache(limits.remembered_addresses)(lambda address: Peer(f"{address[0]}:{address[1]}"))
        self._counts = counts
        self._drops = drops
        self._closed = asyncio.get_running_loop().create_future()
        self._transport: asyncio.DatagramTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport of the socket."""
        self._transport = cast(asyncio.DatagramTransport, transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Record that the socket is closed."""
        self._closed.set_result(None)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Handle a datagram. Datagrams from port 0 are dropped, because no response can be sent to that port."""
        if addr[1]:
            self._receiver.received(self._peer(addr), data)
        else:
            self._counts.dropped += 1

    def error_received(self, exc: Exception) -> None:  # noqa: ARG002 - asyncio's signature
        """Count an error of sending, whose peer is unknown."""
        self._counts.dropped += 1

    @property
    def address(self) -> tuple[str, int]:
        """The host and port on which the socket listens."""
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
    """Return whether the kernel supports IPv6 sockets."""
    try:
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).close()
    except OSError:
        return False
    return True


async def open_socket(address: tuple[str, int], receiver: Receiver, limits: CoapLimits, counts: Counts) -> Transport:
    """Open a socket that listens on a host and port.

    Raises:
        CannotListen: The address is in use, or it does not belong to this machine.
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
"""The log of aiocoap. It is silenced because errors are raised or counted, and its lines may have tracebacks."""


async def _bound_socket(
    loop: asyncio.AbstractEventLoop, address: tuple[str, int], family: socket.AddressFamily, limits: CoapLimits
) -> socket.socket:
    """Open a socket without ``SO_REUSEPORT``. With that option, a second server would get half of the devices."""
    host, port = address
    # An IPv6 socket is bound to an IPv4 address by the IPv4-mapped form of that address.
    flags = socket.AI_PASSIVE | (socket.AI_V4MAPPED if family == socket.AF_INET6 else 0)
    try:
        resolved = await loop.getaddrinfo(host, port, family=family, type=socket.SOCK_DGRAM, flags=flags)
    except OSError as error:
        raise CannotListen(
            f"{host}:{port} is not an address of this machine ({error.strerror or error}); use one of its addresses"
        ) from None
    opened = socket.socket(family, socket.SOCK_DGRAM)
    try:
        if family == socket.AF_INET6:
            # The default of this option depends on the operating system.
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        elif sys.platform == "linux":
            opened.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
        opened.setblocking(False)
        opened.bind(resolved[0][4])
        _enlarge_buffer(opened, limits.receive_buffer_bytes)
    except OSError as error:
        opened.close()
        raise CannotListen(_listen_error(host, port, error)) from None
    return opened


def _listen_error(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"UDP port {port} of {host} is in use: stop the program that listens there, or use another port"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine: use one of its addresses"
    if error.errno == errno.EACCES:
        return f"UDP port {port} may not be opened by this user: use a port from 1024 on"
    return f"cannot listen at {host}:{port}: {error.strerror or error}"


def _enlarge_buffer(opened: socket.socket, requested: int) -> None:
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, requested)
    granted = _granted_bytes(opened)
    if granted < requested:
        _log.warning(
            "The receive buffer for devices has only %d of the requested %d bytes, so bursts may be lost. To enlarge "
            "it: sysctl -w net.core.rmem_max=%d",
            granted,
            requested,
            requested,
        )


def _granted_bytes(opened: socket.socket) -> int:
    return opened.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2  # the kernel returns twice what it grants


def address_text(sockaddr: Any) -> str:
    """Return the address of a :class:`Peer` for the address of an IPv6 socket."""
    host, port, _, scope = sockaddr
    plain = _plain(host)
    if ":" not in plain:
        return f"{plain}:{port}"
    return f"[{plain}%{scope}]:{port}" if scope else f"[{plain}]:{port}"


def _plain(host: str) -> str:
    mapped = host.removeprefix(_MAPPED)
    return mapped if "." in mapped else host


def sockaddr_of(address: str) -> tuple[str, int, int, int]:
    """Return the address of an IPv6 socket for the address of a :class:`Peer`.

    Raises:
        ValueError: The string is not a valid address.
    """
    host, _, port_text = address.rpartition(":")
    port = int(port_text)
    if not 0 < port < 65_536:
        raise ValueError(f"not a port: {port_text}")
    if not host.startswith("["):
        return _MAPPED + host, port, 0, 0
    plain, _, scope = host[1:-1].partition("%")
    return plain, port, 0, int(scope or 0)


_MAPPED_BYTES = bytes(10) + b"\xff\xff"


@lru_cache
def _is_multicast(local: bytes) -> bool:
    """Return whether the destination address in the ancillary data of a datagram is a multicast group."""
    return local[0] == 0xFF or (local.startswith(_MAPPED_BYTES) and local[12] >= 224)
