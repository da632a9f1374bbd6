"""The certificate of the server, and another one without an interruption."""

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
from mirror_server.core.instants import Instant, to_datetime
from mirror_server.hooks import Measurement

_SOON = timedelta(days=14)
_IN_PEM = re.compile(rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----(.+?)-----END", re.DOTALL)
_VERSION, _UTC_TIME = 0xA0, 0x17
_VALIDITY = 3

_log = logging.getLogger(__name__)


class TlsError(CannotServe):
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
        self.context = new_context(cert_path, key_path)
        self.ends_at = self._note_end()

    def reload(self) -> None:
        """Read the files again; where they cannot be used, all stays as it was, and the log says why."""
        try:
            # In a context of its own first, for one that fails may have been changed by half.
            new_context(self._cert_path, self._key_path)
            _load(self.context, self._cert_path, self._key_path)
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

    def measurements(self) -> list[Measurement]:
        """When it ends."""
        ends_at_seconds = 0 if self.ends_at is None else self.ends_at.timestamp()
        meaning = "When the certificate ends, as seconds since 1970; 0 where that is not known."
        return [Measurement("mirror_tls_certificate_ends_at_seconds", meaning, ends_at_seconds)]


def new_context(cert_path: str, key_path: str) -> ssl.SSLContext:
    """Make the context for connections with a certificate.

    Raises:
        TlsError: It cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    _load(context, cert_path, key_path)
    return context


def _load(context: ssl.SSLContext, cert_path: str, key_path: str) -> None:
    for option, path in (("--tls-cert", cert_path), ("--tls-key", key_path)):
        with _told(option, path), open(path, "rb") as file:  # noqa: PTH123 - a path of the system's, as it is
            file.read(1)

    def reject_password() -> NoReturn:
        # OpenSSL would ask for it on the terminal.
        raise TlsError(
            f"the key {key_path} is encrypted; decrypt it with 'openssl pkey -in ENCRYPTED -out KEY', and let"
            " nobody but the server read it"
        )

    try:
        context.load_cert_chain(cert_path, key_path, password=reject_password)
    except ssl.SSLError as error:
        raise TlsError(_fault(error, cert_path, key_path)) from error


def _fault(error: ssl.SSLError, cert_path: str, key_path: str) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"the key {key_path} is not that of the certificate {cert_path}; name the two that belong"
    for option, path, kind in (
        ("--tls-cert", cert_path, b"CERTIFICATE-----"),
        ("--tls-key", key_path, b"PRIVATE KEY-----"),
    ):
        with open(path, "rb") as file:  # noqa: PTH123 - as above
            if kind not in file.read():
                return f"{option} {path} has no {kind.decode().strip('-').lower()} in PEM; name a file that has"
    why = error.reason or "it cannot be read"
    return f"the certificate {cert_path} or the key {key_path} cannot be used: {why}"


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
