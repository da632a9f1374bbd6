"""A file for a browser, which may keep it and ask for it again."""

from __future__ import annotations

from mirror_server.views.responses import CacheableResponse, make_conditional

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "png": "image/png",
}
"""The content types of the files there are, by the end of their names."""


def page_file(name: str, content: bytes, policy: str) -> CacheableResponse:
    """The answer with a file.

    Args:
        name: Its name, which ends in one of :data:`TYPES`.
        content: What is in it.
        policy: What the browser may load and run for it, as ``Content-Security-Policy`` says it.
    """
    headers = {"Content-Security-Policy": policy, "Cache-Control": "no-cache", "Referrer-Policy": "no-referrer"}
    response = CacheableResponse(content, content_type=TYPES[name.rpartition(".")[2]], headers=headers)
    make_conditional(response)
    return response
