"""TLS of the server's own: its certificate, another one without an interruption, and the handshakes of clients."""

from __future__ import annotations

import asyncio
import base64
import logging
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NoReturn

from mirror_server.clock import wall_time
from mirror_server.core.instants import Instant, to_datetime

_MOST_TOLD = 100
_PAUSE_SECONDS = 0.1
_SOON = timedelta(days=14)
_IN_PEM = re.compile(rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----(.+?)-----END", re.DOTALL)
_VERSION, _UTC_TIME = 0xA0, 0x17
_VALIDITY = 3

_log = logging.getLogger(__name__)


class TlsError(Exception):
    """Certificate or key cannot be used; the message says which and what to do."""


class Certificate:
    """A certificate with its chain, and its key.

    Args:
        cert_path: The certificate in PEM, those of authorities in between behind it.
        key_path: Its key in PEM, not encrypted.
        now: Tells the time by which clients judge it.

    Attributes:
        context: What connections are made with. A certificate that is loaded later holds for the next ones.
        ends_at: From when on clients refuse it or one behind it; ``None`` where that cannot be read.

    Raises:
        TlsError: They cannot be used.
    """

    def __init__(self, cert_path: str, key_path: str, *, now: Callable[[], Instant] = wall_time) -> None:
        self._cert_path = cert_path
        self._key_path = key_path
        self._now = now
        self.context = self._new()
        self.ends_at = self._note_end()

    def reload(self) -> None:
        """Read the files again; where they cannot be used, all stays as it was, and the log says why."""
        try:
            # In a context of its own first, for one that fails may have been changed by half.
            self._new()
            self._load(self.context)
        except TlsError as error:
            _log.error("the certificate was not reloaded, the one before is used on: %s", error)
        else:
            _log.info("the certificate was reloaded")
            self.ends_at = self._note_end()

    def _note_end(self) -> datetime | None:
        """When the first of the certificates ends, with a warning where that is soon or was: it can be used still."""
        ends = [end for end in map(_end_of, _IN_PEM.findall(Path(self._cert_path).read_bytes())) if end is not None]
        if not ends:
            return None
        end, now = min(ends), to_datetime(self._now())
        if end < now + _SOON:
            said = "ended" if end <= now else "ends"
            _log.warning(
                "the certificate --tls-cert %s %s at %s, and clients refuse it from then on; put another one there,"
                " and have it loaded by SIGHUP or a new start",
                *(self._cert_path, said, f"{end:%Y-%m-%d %H:%M} UTC"),
            )
        return end

    def _new(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        self._load(context)
        return context

    def _load(self, context: ssl.SSLContext) -> None:
        for option, path in (("--tls-cert", self._cert_path), ("--tls-key", self._key_path)):
            with _told(option, path), open(path, "rb") as file:  # noqa: PTH123 - a path of the system's, as it is
                file.read(1)
        try:
            context.load_cert_chain(self._cert_path, self._key_path, password=self._refuse_password)
        except ssl.SSLError as error:
            raise TlsError(self._fault(error)) from error

    def _refuse_password(self) -> NoReturn:
        # OpenSSL would ask for it on the terminal.
        raise TlsError(
            f"the key {self._key_path} is encrypted; decrypt it with 'openssl pkey -in ENCRYPTED -out KEY', and let"
            " nobody but the server read it"
        )

    def _fault(self, error: ssl.SSLError) -> str:
        if error.reason == "KEY_VALUES_MISMATCH":
            return (
                f"the key {self._key_path} is not that of the certificate {self._cert_path}; name the two that belong"
            )
        for option, path, kind in (
            ("--tls-cert", self._cert_path, b"CERTIFICATE-----"),
            ("--tls-key", self._key_path, b"PRIVATE KEY-----"),
        ):
            with open(path, "rb") as file:  # noqa: PTH123 - as above
                if kind not in file.read():
                    return f"{option} {path} has no {kind.decode().strip('-').lower()} in PEM; name a file that has"
        why = error.reason or "it cannot be read"
        return f"the certificate {self._cert_path} or the key {self._key_path} cannot be used: {why}"


@contextmanager
def _told(option: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        cure = "name one that is there and that the server may read"
        raise TlsError(f"{option} {path} cannot be read: {error.strerror}; {cure}") from error


def _end_of(pem: bytes) -> datetime | None:
    """When a certificate ends, as its DER has it; ``None`` where that is not as OpenSSL writes it."""
    try:
        (_, whole), *_ = _members(base64.b64decode(pem))
        (_, told), *_ = _members(whole)
        _, validity = [member for member in _members(told) if member[0] != _VERSION][_VALIDITY]
        _, (kind, text) = _members(validity)
        return datetime.strptime(text.decode(), f"{'%y' if kind == _UTC_TIME else '%Y'}%m%d%H%M%SZ").replace(tzinfo=UTC)
    except (IndexError, ValueError):
        return None


def _members(der: bytes) -> list[tuple[int, bytes]]:
    """Kind and content of the members of a sequence in DER."""
    found, place = [], 0
    while place < len(der):
        kind, size = der[place : place + 2]
        place += 2
        if size >= 0x80:
            begin = place + size - 0x80
            size, place = int.from_bytes(der[place:begin]), begin
        found.append((kind, der[place : place + size]))
        place += size
    return found


class TlsListener:
    """Accepts connections, and bounds their handshakes as the others bound what they send.

    An event loop that accepts them by itself tells nobody of a connection before its handshake, and waits for that a
    minute: who begins handshakes without an end would take all files there may be.

    Args:
        listener: Where clients connect; closed at the end.
        certificate: With what it is spoken.
        make: Makes what speaks HTTP, when a handshake is over.
        connections: Those whose handshake is over.
        max_connections: How many there may be of both. One more ends the oldest handshake, which has had its time.
        handshake_seconds: How long one may take.
    """

    def __init__(
        self,
        listener: socket.socket,
        certificate: Certificate,
        make: Callable[[], asyncio.Protocol],
        connections: Sized,
        *,
        max_connections: int,
        handshake_seconds: float,
    ) -> None:
        self._listener = listener
        self._certificate = certificate
        self._make = make
        self._connections = connections
        self._max_connections = max_connections
        self._handshake_seconds = handshake_seconds
        # By age.
        self._handshakes: dict[asyncio.Task[None], None] = {}
        listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept())
        # Not before: the event loop looks at it until then.
        self._accepting.add_done_callback(lambda _: listener.close())

    def close(self) -> None:
        """Accept no more, and end the handshakes that are not over."""
        for task in (self._accepting, *self._handshakes):
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until that is done."""
        await asyncio.wait([self._accepting, *self._handshakes])

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(self._listener)
            except OSError:
                # Of the client, which is gone; or of the system, which has no more files for a while.
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            self._take(accepted)

    def _take(self, accepted: socket.socket) -> None:
        excess = len(self._connections) + len(self._handshakes) - self._max_connections
        if excess >= 0 and self._handshakes:
            oldest = next(iter(self._handshakes))
            self._handshakes.pop(oldest)
            oldest.cancel()
        elif excess >= _MOST_TOLD:
            # The others are told why, by what speaks HTTP.
            accepted.close()
            return
        task = asyncio.create_task(self._shake_hands(accepted))
        self._handshakes[task] = None
        task.add_done_callback(partial(self._note_over, accepted))

    def _note_over(self, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        self._handshakes.pop(task, None)
        if task.cancelled():
            # It may not have begun.
            accepted.close()

    async def _shake_hands(self, accepted: socket.socket) -> None:
        # A client whose handshake fails learns of it by TLS, and to the server it is nothing.
        with suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make,
                accepted,
                ssl=self._certificate.context,
                ssl_handshake_timeout=self._handshake_seconds,
            )
