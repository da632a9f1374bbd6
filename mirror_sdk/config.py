"""Where the service is and which access key it is asked with: arguments first, then the environment.

Source: specification 5.2 (``API_HOST``, ``API_KEY``).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from pydantic import SecretStr

from mirror_sdk._arguments import real
from mirror_sdk._fork import import_locked
from mirror_sdk.errors import ConfigError

HOST_VARIABLE = "API_HOST"
KEY_VARIABLE = "API_KEY"
PAGE_VARIABLE = "API_PAGE"
"""Leads to who has the page and its key, see :func:`page_address`."""
DEFAULT_BASE_URL = "http://127.0.0.1:8080"
"""Where ``mirror-server demo`` and ``mirror-server run`` are to be found on this machine, unless told otherwise."""
_MARK_LENGTH = 16
LONGEST_TIMEOUT_SECONDS = 86_400
_MOST_RETRIES = 100


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Address and access key of a client, checked. The key is hidden in ``repr``."""

    base_url: str
    api_key: SecretStr

    @classmethod
    def of(cls, base_url: str, api_key: str) -> ClientSettings:
        """Check both and bring the address into its full form, see :func:`read_base_url`.

        Raises:
            ConfigError: One of them cannot be used.
        """
        return cls(read_base_url(base_url), SecretStr(_read_key(api_key)))

    @classmethod
    def load(
        cls, base_url: str | None = None, api_key: str | None = None, environ: Mapping[str, str] = os.environ
    ) -> ClientSettings:
        """Take what is not given as an argument from the environment. An empty variable counts as missing.

        An address that is in neither place is :data:`DEFAULT_BASE_URL`.

        Raises:
            ConfigError: The key is in neither place, or something cannot be used.
        """
        api_key = api_key or environ.get(KEY_VARIABLE)
        if not api_key:
            raise ConfigError(
                f"api_key is missing: give the argument api_key= or set the variable {KEY_VARIABLE};"
                f" 'mirror-server demo' prints one, and {HOST_VARIABLE} with it"
            )
        return cls.of(base_url or environ.get(HOST_VARIABLE) or DEFAULT_BASE_URL, api_key)

    @property
    def key_mark(self) -> str:
        """Tells this access key from others, and nothing else of it."""
        return hashlib.sha256(self.api_key.get_secret_value().encode()).hexdigest()[:_MARK_LENGTH]


def read_base_url(address: object) -> str:
    """The full form of an address, without a slash at its end.

    An address without a scheme (``localhost:8080``, ``mirror.example.com``) gets ``http`` when it is a loopback
    address and ``https`` otherwise, so that a key never travels in the clear because four letters were left out.

    Raises:
        ConfigError: It is no http address, or it carries a user name, a query or a fragment.
    """
    if not isinstance(address, str):
        raise ConfigError(f"base_url must be a text, not {address!r}; write it like {_EXAMPLE}")
    import_locked("httpx")  # takes long to load, and is needed with a client only
    import httpx

    text = address.strip()
    try:
        url = httpx.URL(text if "://" in text else f"//{text}")
    except httpx.InvalidURL as exc:
        raise ConfigError(f"base_url is not an address ({exc}); write it like {_EXAMPLE}") from exc
    if url.userinfo or url.query or url.fragment:
        raise ConfigError(f"base_url must be an address alone, without user name, query or fragment, like {_EXAMPLE}")
    if not url.scheme:
        url = url.copy_with(scheme="http" if _is_loopback(url.host) else "https")
    if url.scheme not in {"http", "https"} or not url.host or any(map(str.isspace, text)):
        raise ConfigError(f"base_url {address!r} is not an http address; write it like {_EXAMPLE}")
    return str(url).rstrip("/")


def page_address(base_url: str, device_id: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """Where people look at the fleet, or at a device, without a key.

    That is what ``API_PAGE`` names, of the service that ``API_HOST`` names: ``mirror lab`` sets both.
    """
    chosen = f"device={device_id}" if device_id else ""
    page, host = environ.get(PAGE_VARIABLE), environ.get(HOST_VARIABLE)
    if page and host and read_base_url(host) == base_url:
        return page + (f"?{chosen}" if chosen else "")
    return f"{base_url}/" + (f"#{chosen}" if chosen else "")


def read_timeout(given: object) -> float:
    """The limit on a call.

    Raises:
        ConfigError: It is no number of seconds, or not one that ends.
    """
    seconds = real(given)
    if seconds is None or not 0 < seconds <= LONGEST_TIMEOUT_SECONDS:
        raise ConfigError(f"timeout={given!r} must be a number of seconds, above 0, {LONGEST_TIMEOUT_SECONDS} at most")
    return seconds


def read_max_retries(given: object) -> int:
    """How often a request may be sent again.

    Raises:
        ConfigError: It is no number of times.
    """
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given <= _MOST_RETRIES:
        raise ConfigError(
            f"max_retries={given!r} must be a number of times, 0 for one attempt, {_MOST_RETRIES} at most"
        )
    return given


def read_max_snapshot_bytes(given: object) -> int:
    """The limit on snapshots.

    Raises:
        ConfigError: It is no number of bytes.
    """
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise ConfigError(f"max_snapshot_bytes={given!r} must be a number of bytes, 1 or more")
    return given


def is_loopback(base_url: str) -> bool:
    """Whether an address leads to this machine."""
    import httpx  # as above

    return _is_loopback(httpx.URL(base_url).host)


_EXAMPLE = "https://mirror.example.com"


def _read_key(api_key: object) -> str:
    """Refuse what cannot stand in a header: httpx would show the key in its own error."""
    key = api_key.strip() if isinstance(api_key, str) else ""
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError("api_key must be one word of printable ASCII characters; check how it was copied")
    return key


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
