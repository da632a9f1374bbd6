"""TLS in front of a server, as a proxy has it, for a library that speaks https whatever it is told."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_HOST = "127.0.0.1"
_CHUNK_BYTES = 65536


@contextmanager
def tls_front(port: int, folder: Path) -> Iterator[tuple[str, Path]]:
    """Serve what a server on this machine serves, with a certificate made for it.

    Args:
        port: Where that server listens.
        folder: Where the certificate is written.

    Yields:
        The URL, and the file of the certificate that a client has to trust.
    """
    certificate, key = _certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(
        asyncio.start_server(lambda *streams: _join(port, *streams), _HOST, 0, ssl=context)
    )
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"https://{_HOST}:{server.sockets[0].getsockname()[1]}", certificate
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


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
    """A certificate for this machine, signed by itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, _HOST)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address(_HOST))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files
