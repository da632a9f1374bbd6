"""What ``mirror lab`` adds to the JupyterLab it starts: an extension of its server, of which no other Jupyter knows."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click
import nbformat
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.utils import url_path_join
from tornado import web

from mirror_sdk.config import PAGE_VARIABLE
from mirror_sdk.examples import list_notebooks
from mirror_sdk.lab.beside import show_beside
from mirror_sdk.lab.laboratory import BESIDE_VARIABLE
from mirror_sdk.lab.launcher import page_path

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

_NEWS = "@jupyterlab/apputils-extension:announcements"
_PAGE = "mirror-page"
_LAST_LINE_SECONDS = 5.0


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(app: ServerApp) -> None:
    # JupyterLab asks about news whatever its option news_url is; it does not where the plugin that asks is disabled.
    app.web_app.settings["page_config_hook"] = _without_news
    app.web_app.add_handlers(".*$", [(url_path_join(app.base_url, _PAGE), _PageHandler)])
    _trust(app)
    try:
        if beside := os.environ.get(BESIDE_VARIABLE):
            app.io_loop.run_sync(partial(show_beside, app, beside, list_notebooks()[0].name))
    finally:
        app.io_loop.add_callback(_say_where, app)


def _without_news(_handler: object, page_config: dict[str, Any]) -> dict[str, Any]:
    return page_config | {"disabledExtensions": [*page_config.get("disabledExtensions", []), _NEWS]}


def _trust(app: ServerApp) -> None:
    """What our notebooks show is shown at once. A signature is of a content: one that was changed is not trusted."""
    for notebook in list_notebooks():
        app.contents_manager.notary.sign(nbformat.read(notebook, as_version=4))


async def _say_where(app: ServerApp) -> None:
    # The loop begins when Jupyter has told its address; what it finds of language servers, it tells a moment later.
    servers = getattr(app, "language_server_manager", None)
    if servers is not None:
        with suppress(TimeoutError):
            await asyncio.wait_for(servers.ready(), _LAST_LINE_SECONDS)
    page = urlsplit(app.public_url)._replace(path=url_path_join(app.base_url, _PAGE))
    # For the kernels; who opens it there is signed in to Jupyter.
    os.environ[PAGE_VARIABLE] = page._replace(query="").geturl()
    click.echo(f"\nNotebooks, in JupyterLab: {app.public_url}\nPage of the mirror: {page.geturl()}\nStop with Ctrl-C.")


class _PageHandler(JupyterHandler):
    """The way to the page for who is signed in to Jupyter: its key is in no address that is printed or logged."""

    @web.authenticated
    def get(self) -> None:
        self.redirect(url_path_join(self.base_url, page_path(device=self.get_query_argument("device", ""))))
