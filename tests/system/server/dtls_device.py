"""A device with DTLS for the tests: a plain socket, and DTLSSocket as the client."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from DTLSSocket import dtls

from mirror_server.extensions.lwm2m.coap.messages import Message, decode

_CONNECTED = 0x01DE
_CLOSE_NOTIFY = 0


class DtlsDevice:
    """A device. ``restart`` drops its session but keeps the port."""

    def __init__(self, server: tuple[str, int], identity: str, key: bytes) -> None:
        dtls.setLogLevel(dtls.DTLS_LOG_EMERG)
        self.server = server
        self._identity = identity.encode()
        self._keys = {self._identity: key}
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(("127.0.0.1", 0))
        self._plain: list[bytes] = []
        self.is_connected = self.is_closed = False
        self._connection: Any = None
        self.restart()

    @property
    def address(self) -> str:
        host, port = self._socket.getsockname()
        return f"{host}:{port}"

    def restart(self) -> None:
        self.is_connected = self.is_closed = False
        self._silent = True
        self._connection = None  # it would send a close_notify
        self._silent = False
        self._context = dtls.DTLS(
            read=self._received, write=self._write, event=self._event, pskId=self._identity, pskStore=self._keys
        )

    def close(self) -> None:
        """Close the socket without a close_notify."""
        self._silent = True
        self._connection = None
        self._socket.close()

    def send_close_notify(self) -> None:
        """End the session with a close_notify."""
        self._connection = None

    async def connect(self) -> bool:
        """Start a handshake, and return whether it completed."""
        self._connection = self._context.connect("::1", 1)
        try:
            async with asyncio.timeout(60):
                while not (self.is_connected or self.is_closed):
                    await self._read_or_repeat()
        except TimeoutError:
            return False
        return self.is_connected

    def send(self, message: Message) -> None:
        assert self._connection is not None
        self._context.write(self._connection, message.encode())

    def send_raw(self, datagram: bytes) -> None:
        """Send bytes outside the session, from the same port."""
        self._socket.sendto(datagram, self.server)

    async def receive(self) -> Message:
        async with asyncio.timeout(60):
            while not self._plain:
                await self._read()
        return decode(self._plain.pop(0))

    async def closed(self) -> None:
        """Wait until the server ended the session."""
        async with asyncio.timeout(60):
            while not self.is_closed:
                await self._read()

    async def _read_or_repeat(self) -> None:
        try:
            await asyncio.wait_for(self._read(), 0.1)
        except TimeoutError:
            self._context.checkRetransmit()

    async def _read(self) -> None:
        datagram = await asyncio.get_running_loop().sock_recv(self._socket, 65_535)
        self._context.handleMessageAddr("::1", 1, datagram)

    def _received(self, _sender: object, data: bytes) -> int:
        self._plain.append(data)
        return len(data)

    def _write(self, _recipient: object, data: bytes) -> int:
        if not self._silent:
            self._socket.sendto(data, self.server)
        return len(data)

    def _event(self, level: int, code: int) -> None:
        if code == _CONNECTED:
            self.is_connected = True
        elif level == 2 or code == _CLOSE_NOTIFY:
            self.is_closed = True
