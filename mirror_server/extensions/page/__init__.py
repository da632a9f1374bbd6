"""The web page at ``/``, and the reference of the Python packages at ``/reference/``.

The page is files in ``files`` that a browser runs; it calls the interface as any client does. The reference is built by
Sphinx, and is there where that was done. Begin with ``page``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirror_server.hooks import extends

if TYPE_CHECKING:
    from flask import Blueprint


@extends
def announcements(url: str, key: str | None) -> list[str]:
    """A demo has a link that opens it."""
    # Behind the #, so that the browser does not send it.
    return [] if key is None else [f"In a browser: {url}/#key={key}"]


@extends
def blueprints() -> list[Blueprint]:
    """The page and the reference."""
    from mirror_server.extensions.page import page, reference

    return [page.routes, reference.routes]
