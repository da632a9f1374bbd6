"""Files for browsers, which may cache them but have to revalidate them."""

from __future__ import annotations

from mirror_server.views.responses import CacheableResponse, make_conditional

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "png": "image/png",
}
"""The supported content types, by file name extension."""


def page_file(name: str, content: bytes, policy: str) -> CacheableResponse:
    """Return the response that contains a file.

    Args:
        name: The file name, with an extension in :data:`TYPES`.
        content: The content of the file.
        policy: The value of the header ``Content-Security-Policy``, which lists the sources from which the page may
            load content.
    """
    headers = {"Content-Security-Policy": policy, "Cache-Control": "no-cache", "Referrer-Policy": "no-referrer"}
    response = CacheableResponse(content, content_type=TYPES[name.rpartition(".")[2]], headers=headers)
    make_conditional(response)
    return response
