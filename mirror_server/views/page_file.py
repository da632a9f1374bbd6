"""A file for a browser, which may keep it and ask for it again."""

from __future__ import annotations

from flask import Response, request

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "png": "image/png",
}
"""The content types of the files there are, by the end of their names."""


class PageFile(Response):
    """An answer whose own ``Cache-Control`` stays; all others are kept by nobody."""


def page_file(name: str, content: bytes, policy: str) -> PageFile:
    """The answer with a file.

    Args:
        name: Its name, which ends in one of :data:`TYPES`.
        content: What is in it.
        policy: What the browser may load and run for it, as ``Content-Security-Policy`` says it.
    """
    headers = {"Content-Security-Policy": policy, "Cache-Control": "no-cache", "Referrer-Policy": "no-referrer"}
    answer = PageFile(content, content_type=TYPES[name.rpartition(".")[2]], headers=headers)
    make_conditional(answer)
    return answer


def make_conditional(answer: Response) -> None:
    """Give an answer a tag of its content, and leave the content out where the client has it."""
    answer.add_etag()
    answer.make_conditional(request)
    # Werkzeug adds the date, and the server that sends the answer adds it once more.
    del answer.headers["Date"]
