"""TLS of the server's own: HTTPS and secure websockets with a certificate from files.

With ``--tls-cert`` and ``--tls-key`` the server speaks TLS, and loads another certificate at ``SIGHUP``, without an
interruption (of systemd: ``ExecReload=/bin/kill -HUP $MAINPID``; without TLS the signal ends the server). One that has
ended, or ends within 14 days, is told in the log when it is loaded; ``mirror_tls_certificate_ends_at_seconds`` of
``/metrics`` has its end. The Python client trusts an authority of your own by ``SSL_CERT_FILE=authority.pem``. A
reverse proxy is better where it renews certificates, has them for more than one service, or is to limit requests.
"""

# To read it begin with ``certificate``.

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
    """The certificate."""
    return TlsSettings


@extends
def help_topics() -> dict[str, str]:
    """How it is set up."""
    return {"tls": __name__}


@extends
def check_settings(settings: Settings) -> None:
    """Refuse a certificate that cannot be used."""
    from mirror_server.extensions.tls.certificate import new_context

    given = settings.of(TlsSettings)
    if given.tls_cert and given.tls_key:
        new_context(given.tls_cert, given.tls_key)


@extends
def configure_server(config: uvicorn.Config, services: Services) -> None:
    """Speak TLS; SIGHUP has the certificate loaded again, and connections that are open stay."""
    from mirror_server.extensions.tls.certificate import Certificate

    given = services.settings.of(TlsSettings)
    if not (given.tls_cert and given.tls_key):
        return
    certificate = Certificate(given.tls_cert, given.tls_key)
    config.ssl_context_factory = lambda *_: certificate.context
    services.gauges.append(certificate.measurements)
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, lambda *_: certificate.reload())
