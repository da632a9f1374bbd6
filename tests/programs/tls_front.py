"""TLS in front of a server, as a proxy has it, for a library that speaks https whatever it is told."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import trustme

_HOST = "127.0.0.1"
_CHUNK_BYTES = 65536
_START_SECONDS = 30


@contextmanager
def tls_front(port: int, folder: Path) -> Iterator[tuple[str, Path]]:
    """Serve what a server on this machine serves, with a certificate made for it.

    Args:
        port: Where that server listens.
        folder: Where the certificates are written.

    Yields:
        The URL, and the file of the certificate that a client has to trust.
    """
    certificate, authority = _certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    ready: Future[tuple[int, Callable[[], object]]] = Future()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(port, context, ready)), daemon=True)
    thread.start()
    own_port, stop = ready.result(_START_SECONDS)
    try:
        yield f"https://{_HOST}:{own_port}", authority
    finally:
        stop()
        thread.join()


async def _serve(port: int, context: ssl.SSLContext, ready: Future[tuple[int, Callable[[], object]]]) -> None:
    """Serve until what ``ready`` was given is called."""
    server = await asyncio.start_server(lambda *streams: _join(port, *streams), _HOST, 0, ssl=context)
    end, loop = asyncio.Event(), asyncio.get_running_loop()
    ready.set_result((server.sockets[0].getsockname()[1], lambda: loop.call_soon_threadsafe(end.set)))
    await end.wait()


async def _join(port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what either side sends, until one ends."""
    far_reader, far_writer = await asyncio.open_connection(_HOST, port)
    ways = [asyncio.create_task(_pass_on(*way)) for way in ((reader, far_writer), (far_reader, writer))]
    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    for end in (writer, far_writer):
        end.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
    except OSError:
        return


def _certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine with its key, and that of who signed it."""
    authority = trustme.CA()
    files = folder / "server.pem", folder / "authority.pem"
    authority.issue_cert(_HOST).private_key_and_cert_chain_pem.write_to_path(str(files[0]))
    authority.cert_pem.write_to_path(str(files[1]))
    return files
