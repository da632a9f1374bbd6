"""The address of the service and the access key, from arguments or else from environment variables."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from pydantic import SecretStr

from mirror_sdk._arguments import is_count, real
from mirror_sdk._fork import import_locked
from mirror_sdk.errors import ConfigError

HOST_VARIABLE = "API_HOST"
KEY_VARIABLE = "API_KEY"
PAGE_VARIABLE = "API_PAGE"
"""The environment variable with the address of a web page that requires no access key; see :func:`page_address`."""
DEFAULT_BASE_URL = "http://127.0.0.1:8080"
"""The default address of ``mirror-server demo`` and ``mirror-server run`` on this machine."""
_MARK_LENGTH = 16
LONGEST_TIMEOUT_SECONDS = 86_400
_MOST_RETRIES = 100
_HIGHEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The checked address and access key of a client. The ``repr`` does not contain the key."""

    base_url: str
    api_key: SecretStr

    @classmethod
    def of(cls, base_url: str, api_key: str) -> ClientSettings:
        """Check the arguments, complete the address and return the settings; see :func:`read_base_url`.

        Raises:
            ConfigError: An argument is not valid.
        """
        return cls(read_base_url(base_url), SecretStr(_read_key(api_key)))

    @classmethod
    def load(
        cls, base_url: str | None = None, api_key: str | None = None, environ: Mapping[str, str] = os.environ
    ) -> ClientSettings:
        """Return settings. The environment variables ``API_HOST`` and ``API_KEY`` replace missing arguments.

        An empty variable counts as missing.

        The default address is :data:`DEFAULT_BASE_URL`.

        Raises:
            ConfigError: The key is missing, or a value is not valid.
        """
        api_key = api_key or environ.get(KEY_VARIABLE)
        if not api_key:
            raise ConfigError(
                f"api_key is missing: pass the argument api_key= or set the variable {KEY_VARIABLE};"
                f" 'mirror-server demo' prints one, and {HOST_VARIABLE} with it"
            )
        return cls.of(base_url or environ.get(HOST_VARIABLE) or DEFAULT_BASE_URL, api_key)

    @property
    def key_mark(self) -> str:
        """A digest that distinguishes this access key from other keys without revealing the key."""
        return hashlib.sha256(self.api_key.get_secret_value().encode()).hexdigest()[:_MARK_LENGTH]


def read_base_url(address: object, name: str = "base_url", example: str = "https://mirror.example.com") -> str:
    """Return an address with its scheme and without a slash at the end.

    An address without a scheme gets ``http`` if it is a loopback address, such as ``localhost:8080``. Otherwise, it
    gets ``https``, so a missing scheme never sends a key unencrypted.

    Args:
        address: The address.
        name: The name of the setting, for error messages.
        example: A valid address, for error messages.

    Raises:
        ConfigError: ``address`` is not an http address, or contains a user name, a query or a fragment.
    """
    cure = f"write it like {example}"
    if not isinstance(address, str):
        raise ConfigError(f"{name} must be a str, not {address!r}; {cure}")
    import_locked("httpx")  # its import is slow, and only a client needs it
    import httpx

    text = address.strip()
    try:
        url = httpx.URL(text if "://" in text else f"//{text}")
    except httpx.InvalidURL as exc:
        raise ConfigError(f"{name} is not an address ({exc}); {cure}") from exc
    if url.userinfo or url.query or url.fragment:
        raise ConfigError(f"{name} must be only an address, without user name, query or fragment; {cure}")
    if not url.scheme:
        url = url.copy_with(scheme="http" if _is_loopback(url.host) else "https")
    is_http = url.scheme in {"http", "https"} and bool(url.host) and (url.port or 0) <= _HIGHEST_PORT
    if not is_http or any(map(str.isspace, text)):
        raise ConfigError(f"{name} {address!r} is not an http address; {cure}")
    return str(url).rstrip("/")


def page_address(base_url: str, device_id: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """Return the address of the web page of the fleet or of a device.

    ``mirror lab`` sets ``API_PAGE`` to an address at which the web page of the service at ``API_HOST`` requires no key.
    """
    chosen = f"device={device_id}" if device_id else ""
    page, host = environ.get(PAGE_VARIABLE), environ.get(HOST_VARIABLE)
    if page and host and read_base_url(host) == base_url:
        return page + (f"?{chosen}" if chosen else "")
    return f"{base_url}/" + (f"#{chosen}" if chosen else "")


def read_timeout(value: object) -> float:
    """Return the timeout of a client in seconds, after checking it.

    Raises:
        ConfigError: ``value`` is not a number of seconds above 0, up to a day.
    """
    seconds = real(value)
    if seconds is None or not 0 < seconds <= LONGEST_TIMEOUT_SECONDS:
        raise ConfigError(f"timeout={value!r} must be a number of seconds above 0, up to {LONGEST_TIMEOUT_SECONDS}")
    return seconds


def read_max_retries(value: object) -> int:
    """Return the maximum number of retries of a client, after checking it.

    Raises:
        ConfigError: ``value`` is not a whole number from 0 to 100.
    """
    if is_count(value) and value <= _MOST_RETRIES:
        return value
    raise ConfigError(f"max_retries={value!r} must be a whole number from 0 (no retries) to {_MOST_RETRIES}")


def read_max_snapshot_bytes(value: object) -> int:
    """Return the maximum size of a snapshot in bytes, after checking it.

    Raises:
        ConfigError: ``value`` is not a whole number of bytes, 1 or more.
    """
    if is_count(value) and value > 0:
        return value
    raise ConfigError(f"max_snapshot_bytes={value!r} must be a whole number of bytes, 1 or more")


def is_loopback(base_url: str) -> bool:
    """Return whether an address belongs to this machine."""
    import httpx  # slow to import, as above

    return _is_loopback(httpx.URL(base_url).host)


def _read_key(api_key: object) -> str:
    """Return a key after checking it. If httpx rejected an invalid key, its error message would contain the key."""
    key = api_key.strip() if isinstance(api_key, str) else ""
    if isinstance(api_key, str) and not key:
        raise ConfigError("api_key is empty; pass the access key of the application")
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError("api_key must be printable ASCII characters without spaces; copy the complete key again")
    return key


def _is_loopback(host: str) -> bool:
    # According to RFC 6761, 6.3, names below localhost are loopback addresses, too.
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
