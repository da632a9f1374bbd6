"""The tile in JupyterLab's launcher that opens the mirror's own page, by way of jupyter-server-proxy."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import httpx

from mirror_sdk.config import HOST_VARIABLE, KEY_VARIABLE, is_loopback, read_base_url
from mirror_sdk.demo import DEMO_KEY_VARIABLE, SERVER_COMMAND, is_installed
from mirror_sdk.errors import ConfigError

_NAME = "mirror"
_TITLE = "Device state mirror"
_ICON = Path(__file__).with_name("launcher.svg")
_READY_SECONDS = 30


def server_process() -> dict[str, object]:
    """What jupyter-server-proxy serves under ``mirror/``, and its tile.

    That is the page of the mirror on this machine that ``API_HOST`` leads to. Without ``API_HOST``, the tile starts a
    mirror with simulated devices, which ends with Jupyter. A mirror elsewhere has its page there, and no tile here.
    """
    address = os.environ.get(HOST_VARIABLE)
    if not address:
        return _own_server(shown=is_installed("mirror_server.cli") and is_installed("uvicorn"))
    port = _local_port(address)
    if port is None:
        return _own_server(shown=False)
    return {"port": port, "launcher_entry": _tile(_TITLE, os.environ.get(KEY_VARIABLE, ""))}


def _own_server(*, shown: bool) -> dict[str, object]:
    # The form of the server's own keys.
    key = f"ak_{secrets.token_hex(8)}_{secrets.token_urlsafe(32)}"
    return {
        "command": [*SERVER_COMMAND, "--port={port}"],
        "environment": {DEMO_KEY_VARIABLE: key},
        "timeout": _READY_SECONDS,
        "launcher_entry": {**_tile(f"{_TITLE} (demo)", key), "enabled": shown},
    }


def _tile(title: str, key: str) -> dict[str, object]:
    # Behind the #, so that the browser does not send the key and nobody logs it.
    fragment = f"#key={key}" if key else ""
    return {"title": title, "icon_path": str(_ICON), "path_info": f"{_NAME}/{fragment}"}


def _local_port(address: str) -> int | None:
    """The port of a mirror that can be reached by way of Jupyter's own machine."""
    try:
        url = httpx.URL(read_base_url(address))
    except ConfigError:
        return None
    is_plain = url.scheme == "http" and url.path == "/"
    return (url.port or 80) if is_plain and is_loopback(str(url)) else None
