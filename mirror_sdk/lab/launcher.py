"""The tile in the launcher of JupyterLab that opens the page of the mirror. It uses jupyter-server-proxy."""

from __future__ import annotations

import os
import secrets
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode

import click
import httpx
from tornado.web import HTTPError

from mirror_sdk.config import HOST_VARIABLE, KEY_VARIABLE, is_loopback, read_base_url
from mirror_sdk.errors import ConfigError
from mirror_sdk.lab.demo import DemoError, DemoServer, is_installed

_NAME = "mirror"
_TITLE = "Device state mirror"
_ICON = Path(__file__).with_name("launcher.svg")


def server_process() -> dict[str, object]:
    """Return the settings of jupyter-server-proxy for ``mirror/``, including the settings of the tile.

    The proxy serves the page of the mirror of ``API_HOST``, if that mirror is on this machine. Without ``API_HOST``,
    the tile starts a mirror with simulated devices, which ends together with Jupyter. A mirror on another machine has
    no tile.
    """
    address = os.environ.get(HOST_VARIABLE)
    if not address:
        return _own_server(has_tile=is_installed("mirror_server.cli") and is_installed("uvicorn"))
    port = _local_port(address)
    if port is None:
        return _own_server(has_tile=False)
    return {"port": port, "launcher_entry": _tile(_TITLE, page_path())}


def _own_server(*, has_tile: bool) -> dict[str, object]:
    # The format is that of the server's own keys.
    key = f"ak_{secrets.token_hex(8)}_{secrets.token_urlsafe(32)}"

    def start(port: int) -> list[str]:
        # A server that the proxy itself starts outlives Jupyter, unless Jupyter ends by a signal. The proxy also
        # replaces Jupyter's signal handlers by one that may be ineffective during a request. So the proxy gets no
        # command to run, and finds a server that is ready. Jupyter does nothing else until then.
        try:
            server = DemoServer(port=port, key=key)
        except DemoError as error:
            # Jupyter displays this message.
            raise HTTPError(500, str(error)) from error
        threading.Thread(target=_restart_after_crashes, args=(server, port, key), daemon=True).start()
        with suppress(OSError):  # the output may be closed
            click.echo(f"Mirror with simulated devices: {server.base_url}")
        return []

    return {
        "command": start,
        "launcher_entry": {**_tile(f"{_TITLE} (demo)", page_path(key)), "enabled": has_tile},
    }


def _restart_after_crashes(server: DemoServer, port: int, key: str) -> None:
    with suppress(DemoError):
        while server.wait() != 0:
            server.close()
            server = DemoServer(port=port, key=key)


def page_path(key: str | None = None, *, device: str = "") -> str:
    """Return the path of the page below Jupyter's address.

    The path contains ``key``, or by default the access key in ``API_KEY``.
    """
    key = os.environ.get(KEY_VARIABLE, "") if key is None else key
    fragment = {name: value for name, value in {"key": key, "device": device}.items() if value}
    # The browser does not send the fragment after the #, so the key does not appear in any log.
    return f"{_NAME}/" + (f"#{urlencode(fragment)}" if fragment else "")


def _tile(title: str, path: str) -> dict[str, object]:
    return {"title": title, "icon_path": str(_ICON), "path_info": path}


def _local_port(address: str) -> int | None:
    """Return the port of a mirror on the machine of Jupyter, or ``None`` if the mirror runs elsewhere."""
    try:
        url = httpx.URL(read_base_url(address))
    except ConfigError:
        return None
    is_plain = url.scheme == "http" and url.path == "/"
    return (url.port or 80) if is_plain and is_loopback(str(url)) else None
