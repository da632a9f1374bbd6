"""The page for people."""

from __future__ import annotations

from importlib import resources

from flask import Blueprint, Response, request

from mirror_server.core.errors import Refusal
from mirror_server.views.requests import requires

_TYPES = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
_INDEX = "index.html"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
}


class PageFile(Response):
    """A file of the page, which a browser may keep and ask for again."""


def blueprint() -> Blueprint:
    """The routes of the page and its files; they hold nothing that is secret, so no key is needed."""
    routes = Blueprint("page", __name__)
    files = {
        file.name: file.read_bytes()
        for file in (resources.files("mirror_server") / "page").iterdir()
        if file.name.rpartition(".")[2] in _TYPES
    }

    @routes.get("/")
    @requires()
    def get_page() -> Response:
        return _answer(files, _INDEX)

    @routes.get("/page/<file>")
    @requires()
    def get_page_file(file: str) -> Response:
        if file not in files:
            raise Refusal(404, f"the page has no file {file!r}; begin at /")
        return _answer(files, file)

    return routes


def _answer(files: dict[str, bytes], name: str) -> Response:
    answer = PageFile(files[name], content_type=_TYPES[name.rpartition(".")[2]], headers=_HEADERS)
    answer.add_etag()
    answer.make_conditional(request)
    return answer
