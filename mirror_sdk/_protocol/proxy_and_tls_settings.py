"""Proxies and certificates from environment variables, in the same way for both kinds of clients.

The rules are the same as in httpx. In addition, ``NO_PROXY`` can contain networks, such as ``10.0.0.0/8``.
"""

from __future__ import annotations

import re
import ssl
from contextlib import suppress
from importlib.util import find_spec
from ipaddress import ip_address, ip_network
from urllib.request import getproxies

import httpx

from mirror_sdk.errors import ConfigError

_PORTS = {"http": 80, "https": 443}
_HOST_AND_PORT = re.compile(r"\[?(?P<name>.*?)\]?(:(?P<port>[0-9]{1,5}))?")


def proxy_for(base_url: httpx.URL) -> httpx.Proxy | None:
    """Return the proxy of the environment for an address, or ``None`` if there is none or ``NO_PROXY`` excludes it.

    The environment variables are ``HTTP_PROXY``, ``HTTPS_PROXY`` and ``ALL_PROXY``.

    Raises:
        ConfigError: The proxy cannot be used.
    """
    named = getproxies()
    address = named.get(base_url.scheme) or named.get("all")
    if not address or any(_matches(entry.strip().lower(), base_url) for entry in named.get("no", "").split(",")):
        return None
    try:
        proxy = httpx.Proxy(address if "://" in address else f"http://{address}")
    except (ValueError, httpx.InvalidURL):
        proxy = None
    if proxy is None or not proxy.url.host:
        # The message of httpx is left out, because it may contain a password.
        raise ConfigError(
            f"the proxy that the environment names for {base_url.scheme} (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY) cannot be"
            " used; write it like http://proxy.example.com:3128"
        )
    if proxy.url.scheme.startswith("socks") and find_spec("socksio") is None:
        raise ConfigError(
            f"the environment names a SOCKS proxy for {base_url.scheme}, which needs the package socksio; install it"
            " with pip install 'httpx[socks]', or add its host to NO_PROXY"
        )
    return proxy


def proxy_hint(base_url: str) -> str:
    """Return a hint for an error message: the proxy to an address that was not reached, or an empty string."""
    with suppress(ConfigError):
        proxy = proxy_for(httpx.URL(base_url))
        if proxy is not None:
            # The user name and password of the proxy must not appear in a message.
            address = proxy.url.copy_with(userinfo=b"", path="/", query=None)
            return (
                f"; the request went through the proxy {str(address).rstrip('/')} of the environment: check that it"
                " runs and reaches the service, or add its host to NO_PROXY"
            )
    return ""


def certificates_for(base_url: httpx.URL) -> ssl.SSLContext | None:
    """Load the trusted certificates from ``SSL_CERT_FILE`` or ``SSL_CERT_DIR``, or else the default ones.

    For http, the result is ``None``, because no certificates are needed and loading them takes longer than most
    requests.

    Raises:
        ConfigError: The certificates cannot be read.
    """
    if base_url.scheme != "https":
        return None
    try:
        return httpx.create_ssl_context()
    except OSError as exc:  # this is also the base class of ssl.SSLError
        raise ConfigError(
            f"the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read ({exc}); correct the variable,"
            " or unset it for the default ones"
        ) from exc


def tls_hint(failure: Exception) -> str:
    """Return a hint for an error message that explains how to fix a TLS failure, or an empty string."""
    message = str(failure)
    if any(words in message for words in _UNKNOWN_AUTHORITY):
        return "; if you use your own certificate authority, set SSL_CERT_FILE to its certificate file"
    if any(words in message for words in _NOT_TLS):
        return "; it seems to speak plain HTTP: begin its address with http://"
    return ""


def plain_hint(base_url: str, failure: Exception) -> str:
    """Return a hint for an error message if plain HTTP was sent to a service with TLS, or an empty string."""
    if base_url.startswith("http://") and _HUNG_UP in str(failure):
        return "; if it speaks TLS, begin its address with https://"
    return ""


# This is part of httpcore's message for a connection that ended before the response.
_HUNG_UP = "disconnected without sending a response"
# These are parts of OpenSSL's messages, which all libraries include in their own messages.
_UNKNOWN_AUTHORITY = ("unable to get local issuer certificate", "self-signed certificate", "self signed certificate")
_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")


def _matches(entry: str, url: httpx.URL) -> bool:
    """Return whether an entry of ``NO_PROXY`` matches an address: ``*``, a network, or a host with its subdomains.

    A scheme before a host and a port after it are allowed. A host with a dot in front matches only its subdomains.
    """
    if entry == "*":
        return True
    scheme, _, address = entry.rpartition("://")
    if scheme not in {"", "all", url.scheme}:
        return False
    try:
        return ip_address(url.host) in ip_network(address.strip("[]"), strict=False)
    except ValueError:  # the host or the entry is a name, or the entry has a port
        found = _HOST_AND_PORT.fullmatch(address)
    name, port = ("", None) if found is None else (found["name"], found["port"])
    if not name or (port is not None and int(port) != (url.port or _PORTS[url.scheme])):
        return False
    return url.host == name or url.host.endswith(name if name.startswith(".") else f".{name}")
