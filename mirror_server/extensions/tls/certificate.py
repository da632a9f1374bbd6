"""The server's certificate, which can be reloaded without interruption."""

from __future__ import annotations

import base64
import logging
import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

from mirror_server.clock import wall_time
from mirror_server.core.errors import CannotServe
from mirror_server.core.timestamps import Instant, to_datetime
from mirror_server.hooks import Measurement

_SOON = timedelta(days=14)
_IN_PEM = re.compile(rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----(.+?)-----END", re.DOTALL)
_VERSION, _UTC_TIME = 0xA0, 0x17
_VALIDITY = 3

_log = logging.getLogger(__name__)


class TlsError(CannotServe):
    """A certificate or key cannot be used. The message names the file and contains a suggested fix."""


class Certificate:
    """A certificate with its chain and its key.

    Args:
        cert_path: The file of the certificate in PEM, followed by intermediate certificates.
        key_path: The file of the private key in PEM, not encrypted.
        now: A function that returns the current time, to compare it with the expiry.

    Attributes:
        context: The TLS context. After a reload, the new certificate applies to new connections.
        expires_at: The time at which clients start to reject the certificate or its chain, or ``None`` if it cannot be
            read.

    Raises:
        TlsError: The certificate or the key cannot be used.
    """

    def __init__(self, cert_path: str, key_path: str, *, now: Callable[[], Instant] = wall_time) -> None:
        self._cert_path = cert_path
        self._key_path = key_path
        self._now = now
        self.context = new_context(cert_path, key_path)
        self.expires_at = self._read_expiry()

    def reload(self) -> None:
        """Read the files again. If they cannot be used, continue with the current certificate and log the reason."""
        try:
            # Loaded into a new context first, because a failed load can leave a context half changed.
            new_context(self._cert_path, self._key_path)
            _load(self.context, self._cert_path, self._key_path)
        except TlsError as error:
            _log.error("the certificate was not reloaded, the previous one stays in use: %s", error)
        else:
            _log.info("the certificate was reloaded")
            self.expires_at = self._read_expiry()

    def _read_expiry(self) -> datetime | None:
        """Return the earliest expiry of the certificates. Log a warning if it is near or has passed."""
        ends = [end for end in map(_expiry, _IN_PEM.findall(Path(self._cert_path).read_bytes())) if end is not None]
        if not ends:
            return None
        end, now = min(ends), to_datetime(self._now())
        if end < now + _SOON:
            verb = "expired" if end <= now else "expires"
            _log.warning(
                "the certificate --tls-cert %s %s at %s; clients reject it from then on: replace the file, then send"
                " SIGHUP to the server or restart it",
                *(self._cert_path, verb, f"{end:%Y-%m-%d %H:%M} UTC"),
            )
        return end

    def measurements(self) -> list[Measurement]:
        """Return the metric with the expiry of the certificate."""
        ends_at_seconds = 0 if self.expires_at is None else self.expires_at.timestamp()
        meaning = "Expiry of the certificate, in seconds since 1970; 0 if unknown."
        return [Measurement("mirror_tls_certificate_ends_at_seconds", meaning, ends_at_seconds)]


def new_context(cert_path: str, key_path: str) -> ssl.SSLContext:
    """Return the TLS context for a certificate.

    Raises:
        TlsError: The certificate or key cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    _load(context, cert_path, key_path)
    return context


def _load(context: ssl.SSLContext, cert_path: str, key_path: str) -> None:
    # Checked here, because the errors of OpenSSL do not name the file that cannot be read.
    for option, path in (("--tls-cert", cert_path), ("--tls-key", key_path)):
        with _readable(option, path), open(path, "rb") as file:  # noqa: PTH123 - a path of the system, unchanged
            file.read(1)

    def reject_password() -> NoReturn:
        # Without this callback, OpenSSL would request the password on the terminal.
        raise TlsError(
            f"the key {key_path} is encrypted; decrypt it with 'openssl pkey -in ENCRYPTED -out KEY', and make it"
            " readable only for the server"
        )

    try:
        context.load_cert_chain(cert_path, key_path, password=reject_password)
    except ssl.SSLError as error:
        raise TlsError(_fault(error, cert_path, key_path)) from error


def _fault(error: ssl.SSLError, cert_path: str, key_path: str) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"the key {key_path} does not belong to the certificate {cert_path}; use the key of this certificate"
    for option, path, kind in (
        ("--tls-cert", cert_path, b"CERTIFICATE-----"),
        ("--tls-key", key_path, b"PRIVATE KEY-----"),
    ):
        with open(path, "rb") as file:  # noqa: PTH123 - as above
            if kind not in file.read():
                return f"{option} {path} has no {kind.decode().strip('-').lower()} in PEM; use a file that has one"
    why = error.reason or "one of the two files cannot be read"
    return f"the certificate {cert_path} or the key {key_path} cannot be used: {why}"


@contextmanager
def _readable(option: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        cure = "use an existing file that the server may read"
        raise TlsError(f"{option} {path} cannot be read: {error.strerror}; {cure}") from error


def _expiry(pem: bytes) -> datetime | None:
    """Return the expiry in the DER encoding of a certificate.

    Return ``None`` if the encoding is not in OpenSSL's usual form.
    """
    try:
        (_, certificate), *_ = _members(base64.b64decode(pem))
        (_, signed), *_ = _members(certificate)
        # The version is optional. It is followed by serial number, signature, issuer and validity. Source: RFC 5280,
        # 4.1.
        _, validity = [member for member in _members(signed) if member[0] != _VERSION][_VALIDITY]
        _, (kind, text) = _members(validity)
        return datetime.strptime(text.decode(), f"{'%y' if kind == _UTC_TIME else '%Y'}%m%d%H%M%SZ").replace(tzinfo=UTC)
    except (IndexError, ValueError):
        return None


def _members(der: bytes) -> list[tuple[int, bytes]]:
    """Return the type and the content of each member of a DER sequence."""
    found, position = [], 0
    while position < len(der):
        kind, size = der[position : position + 2]
        position += 2
        # For long content, this byte is the number of the following bytes that contain the size.
        if size >= 0x80:
            begin = position + size - 0x80
            size, position = int.from_bytes(der[position:begin]), begin
        found.append((kind, der[position : position + size]))
        position += size
    return found
