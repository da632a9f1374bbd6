"""The settings of TLS."""

from __future__ import annotations

from dataclasses import dataclass

import click

from mirror_server.config import setting


def _both(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    """Reject one of the two options without the other. Called for each option, in the order of the command line."""
    other = "tls_key" if parameter.name == "tls_cert" else "tls_cert"
    if other in context.params and (context.params[other] is None) != (path is None):
        raise click.UsageError("--tls-cert and --tls-key belong together; pass both, or none for plain HTTP")
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """The settings for the files of the certificate and its key."""

    tls_cert: str | None = setting(
        None,
        "Serve HTTPS and secure websockets with the certificate in this PEM file, followed by intermediate"
        " certificates. SIGHUP reloads both files.",
        metavar="FILE",
        commands=("run",),
        callback=_both,
    )
    tls_key: str | None = setting(
        None,
        "PEM file with the private key of the certificate, not encrypted.",
        metavar="FILE",
        commands=("run",),
        callback=_both,
    )
