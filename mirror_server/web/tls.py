"""TLS of the server's own: its certificate, and another one without an interruption."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

_log = logging.getLogger(__name__)


class TlsError(Exception):
    """Certificate or key cannot be used; the message says which and what to do."""


class Certificate:
    """A certificate with its chain, and its key.

    Args:
        cert_path: The certificate in PEM, those of authorities in between behind it.
        key_path: Its key in PEM, not encrypted.

    Attributes:
        context: What connections are made with. A certificate that is loaded later holds for the next ones.

    Raises:
        TlsError: They cannot be used.
    """

    def __init__(self, cert_path: str, key_path: str) -> None:
        self._cert_path = cert_path
        self._key_path = key_path
        self.context = self._new()

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
