"""What the environment says of the way to the service; both clients ask here, so that they agree.

The rules are those of httpx, and ``NO_PROXY`` may name networks (``10.0.0.0/8``) besides.
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
_PLACE = re.compile(r"\[?(?P<name>.*?)\]?(:(?P<port>[0-9]{1,5}))?")


def proxy_for(base_url: httpx.URL) -> httpx.Proxy | None:
    """The proxy for an address (``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY``), unless ``NO_PROXY`` leaves it out.

    Raises:
        ConfigError: It is not a proxy that can be used.
    """
    named = getproxies()
    address = named.get(base_url.scheme) or named.get("all")
    if not address or any(_names(entry.strip().lower(), base_url) for entry in named.get("no", "").split(",")):
        return None
    try:
        proxy = httpx.Proxy(address if "://" in address else f"http://{address}")
    except (ValueError, httpx.InvalidURL):
        proxy = None
    if proxy is None or not proxy.url.host:
        # Without httpx's own words: a password may stand in them.
        raise ConfigError(
            f"the proxy that the environment names for {base_url.scheme} (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY) is none"
            " that can be used; write it like http://proxy.example.com:3128"
        )
    if proxy.url.scheme.startswith("socks") and find_spec("socksio") is None:
        raise ConfigError(
            f"the environment names a SOCKS proxy for {base_url.scheme}, which takes the package socksio; get it with"
            " pip install 'httpx[socks]', or name the service in NO_PROXY"
        )
    return proxy


def proxy_hint(base_url: str) -> str:
    """Through which proxy an address was not reached, to stand behind the failure; empty where there is none."""
    with suppress(ConfigError):
        proxy = proxy_for(httpx.URL(base_url))
        if proxy is not None:
            # Without its user and password, which are not for a message.
            place = proxy.url.copy_with(userinfo=b"", path="/", query=None)
            return (
                f"; it was asked for through the proxy {str(place).rstrip('/')} that the environment names: see that"
                " this one runs and leads there, or name the service in NO_PROXY"
            )
    return ""


def certificates_for(base_url: httpx.URL) -> ssl.SSLContext | None:
    """Whose certificates are trusted: those of ``SSL_CERT_FILE`` or ``SSL_CERT_DIR``, or else the usual ones.

    To load them takes longer than most answers, and http: uses none.

    Raises:
        ConfigError: They cannot be read.
    """
    if base_url.scheme != "https":
        return None
    try:
        return httpx.create_ssl_context()
    except OSError as exc:  # an error of ssl is one, too
        raise ConfigError(
            f"the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read ({exc}); correct the variable,"
            " or unset it for the usual ones"
        ) from exc


def tls_hint(failure: Exception) -> str:
    """What mends it that a service cannot be spoken to by TLS, to stand behind the failure; empty for any other."""
    said = str(failure)
    if any(words in said for words in _UNKNOWN_AUTHORITY):
        return "; for an authority of your own, name the file of its certificate in SSL_CERT_FILE"
    if any(words in said for words in _NOT_TLS):
        return "; it seems to speak plain HTTP: begin its address with http://"
    return ""


def plain_hint(base_url: str, failure: Exception) -> str:
    """What mends it that a service is spoken to without TLS, to stand behind the failure; empty for any other."""
    if base_url.startswith("http://") and _HUNG_UP in str(failure):
        return "; if it speaks TLS, begin its address with https://"
    return ""


# Words of httpcore, for a connection that was ended before anything was answered.
_HUNG_UP = "disconnected without sending a response"
# Words of OpenSSL, which are in the message whoever hands it on.
_UNKNOWN_AUTHORITY = ("unable to get local issuer certificate", "self-signed certificate", "self signed certificate")
_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")


def _names(entry: str, url: httpx.URL) -> bool:
    """Whether an entry of ``NO_PROXY`` means an address: ``*``, a network, or a host with what is below it.

    Before a host there may be a scheme, and behind it a port. A host with a dot in front means what is below it alone.
    """
    if entry == "*":
        return True
    scheme, _, place = entry.rpartition("://")
    if scheme not in {"", "all", url.scheme}:
        return False
    try:
        return ip_address(url.host) in ip_network(place.strip("[]"), strict=False)
    except ValueError:  # one of them is a name, or has a port
        found = _PLACE.fullmatch(place)
    name, port = ("", None) if found is None else (found["name"], found["port"])
    if not name or (port is not None and int(port) != (url.port or _PORTS[url.scheme])):
        return False
    return url.host == name or url.host.endswith(name if name.startswith(".") else f".{name}")
