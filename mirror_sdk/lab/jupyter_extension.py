"""The server extension of the JupyterLab that ``mirror lab`` starts. It is not enabled in any other Jupyter."""

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
from mirror_sdk.lab.jupyterlab import WIDGET_VARIABLE
from mirror_sdk.lab.launcher import page_path
from mirror_sdk.lab.widget_notebook import open_widget

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

_NEWS = "@jupyterlab/apputils-extension:announcements"
_PAGE = "mirror-page"
_LAST_LINE_SECONDS = 5.0


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(app: ServerApp) -> None:
    # The option news_url does not prevent the prompt for permission to fetch news. Disabling this plugin does.
    app.web_app.settings["page_config_hook"] = _without_news
    app.web_app.add_handlers(".*$", [(url_path_join(app.base_url, _PAGE), _PageHandler)])
    _trust(app)
    try:
        if widget := os.environ.get(WIDGET_VARIABLE):
            app.io_loop.run_sync(partial(open_widget, app, widget, list_notebooks()[0].name))
    finally:
        app.io_loop.add_callback(_print_addresses, app)


def _without_news(_handler: object, page_config: dict[str, Any]) -> dict[str, Any]:
    return page_config | {"disabledExtensions": [*page_config.get("disabledExtensions", []), _NEWS]}


def _trust(app: ServerApp) -> None:
    """Trust the notebooks of this project, so that their outputs are displayed.

    A changed notebook has another signature.
    """
    for notebook in list_notebooks():
        app.contents_manager.notary.sign(nbformat.read(notebook, as_version=4))


async def _print_addresses(app: ServerApp) -> None:
    # The loop starts after Jupyter has printed its address. Shortly afterwards, Jupyter prints the language servers it
    # found.
    servers = getattr(app, "language_server_manager", None)
    if servers is not None:
        with suppress(TimeoutError):
            await asyncio.wait_for(servers.ready(), _LAST_LINE_SECONDS)
    page = urlsplit(app.public_url)._replace(path=url_path_join(app.base_url, _PAGE))
    # This is for the kernels. A user who opens the page from a kernel is already signed in to Jupyter.
    os.environ[PAGE_VARIABLE] = page._replace(query="").geturl()
    click.echo(f"\nNotebooks, in JupyterLab: {app.public_url}\nPage of the mirror: {page.geturl()}\nStop with Ctrl-C.")


class _PageHandler(JupyterHandler):
    """A handler that redirects signed-in users of Jupyter to the page.

    Because of it, no address that is printed or logged contains the access key.
    """

    @web.authenticated
    def get(self) -> None:
        self.redirect(url_path_join(self.base_url, page_path(device=self.get_query_argument("device", ""))))
