"""TLS in the server: HTTPS and secure websockets with a certificate from files.

Serve HTTPS and secure websockets::

    mirror-server run --tls-cert server.pem --tls-key server.key

``--tls-cert`` is the file with the certificate chain, ``--tls-key`` the file with its private key. ``SIGHUP`` reloads
both without interruption (systemd: ``ExecReload=/bin/kill -HUP $MAINPID``). Without TLS the signal ends the server.

When a certificate is loaded that has expired, or expires within 14 days, the log reports it.
``mirror_tls_certificate_ends_at_seconds`` in ``/metrics`` is the time of its expiry. The Python client trusts a
certificate authority of your own with ``SSL_CERT_FILE=authority.pem``.

A reverse proxy is better if it renews certificates, serves other services too, or has to limit requests.
"""

# Start reading with ``certificate``.

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
    """Return the settings of TLS."""
    return TlsSettings


@extends
def help_topics() -> dict[str, str]:
    """Return the help about TLS."""
    return {"tls": __name__}


@extends
def check_settings(settings: Settings) -> None:
    """Reject a certificate that cannot be used."""
    from mirror_server.extensions.tls.certificate import new_context

    tls = settings.of(TlsSettings)
    if tls.tls_cert and tls.tls_key:
        new_context(tls.tls_cert, tls.tls_key)


@extends
def configure_server(config: uvicorn.Config, services: Services) -> None:
    """Serve TLS; SIGHUP reloads the certificate without closing connections."""
    from mirror_server.extensions.tls.certificate import Certificate

    tls = services.settings.of(TlsSettings)
    if not (tls.tls_cert and tls.tls_key):
        return
    certificate = Certificate(tls.tls_cert, tls.tls_key)
    config.ssl_context_factory = lambda *_: certificate.context
    services.gauges.append(certificate.measurements)
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, lambda *_: certificate.reload())
