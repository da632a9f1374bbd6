"""TLS in the server: HTTPS and secure websockets with a certificate from files."""

# Read ``certificate`` first.

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from mirror_server.extensions.tls.settings import TlsSettings
from mirror_server.hooks import extends

if TYPE_CHECKING:
    import uvicorn

    from mirror_server.config import Settings
    from mirror_server.server import Services


@extends
def settings() -> type:
    """Return the settings class of TLS."""
    return TlsSettings


@extends
def check_settings(settings: Settings) -> None:
    """Reject a certificate that cannot be used."""
    from mirror_server.extensions.tls.certificate import new_context

    tls = settings.of(TlsSettings)
    if tls.tls_cert and tls.tls_key:
        new_context(tls.tls_cert, tls.tls_key)


@extends
def configure_server(config: uvicorn.Config, services: Services) -> None:
    """Serve TLS. The signal SIGHUP reloads the certificate without closing connections."""
    from mirror_server.extensions.tls.certificate import Certificate

    tls = services.settings.of(TlsSettings)
    if not (tls.tls_cert and tls.tls_key):
        return
    certificate = Certificate(tls.tls_cert, tls.tls_key)
    config.ssl_context_factory = lambda *_: certificate.context
    services.gauges.append(certificate.measurements)
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, lambda *_: certificate.reload())
