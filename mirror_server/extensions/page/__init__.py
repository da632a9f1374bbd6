"""The web page at ``/``, and the reference of the Python packages at ``/reference/``.

A browser runs the page from the folder ``files``. The page calls the interface in the same way as any other client.
Sphinx builds the reference, which is optional. Read ``page`` first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirror_server.hooks import extends

if TYPE_CHECKING:
    from flask import Blueprint


@extends
def announcements(url: str, key: str | None) -> list[str]:
    """Return the link that opens the page of a demo."""
    # The key follows the #, so that the browser does not send it to the server.
    return [] if key is None else [f"In a browser: {url}/#key={key}"]


@extends
def blueprints() -> list[Blueprint]:
    """Return the routes of the page and the reference."""
    from mirror_server.extensions.page import page, reference

    return [page.routes, reference.routes]
