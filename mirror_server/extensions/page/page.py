"""The views of the web page. They need no key, because the files of the page contain no secrets."""

from __future__ import annotations

from functools import cache
from importlib import resources

import orjson
from flask import Blueprint

from mirror_sdk.wire.object_definitions import (
    CONSTANT,
    CONSTANT_IN_DEVICE,
    DECLARED_OBJECTS,
    DISPLAY_UNITS,
    IN_SENSOR_UNITS,
    SENSOR_UNITS,
    ResourceDeclaration,
)
from mirror_server.core.errors import ApiError
from mirror_server.extensions.page.page_file import TYPES, page_file
from mirror_server.views.description import ResponseSpec, described, text_of
from mirror_server.views.requests import requires, services
from mirror_server.views.responses import CacheableResponse

_INDEX = "index.html"
_COMPONENTS = "ui.js"
_OBJECTS = "objects.json"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'self'"
)

routes = Blueprint("page", __name__)


@routes.get("/")
@requires()
@described("Operation", ResponseSpec(200, "The page.", text_of("text/html", "<!doctype html>")), is_extension=True)
def get_page() -> CacheableResponse:
    """Get the web page."""
    return page_file(_INDEX, _files()[_INDEX], _POLICY)


@routes.get("/page/<file>")
@requires()
@described(
    "Operation",
    ResponseSpec(200, "A script.", text_of("text/javascript", 'import { mountPage } from "./ui.js";')),
    is_extension=True,
)
def get_page_file(file: str) -> CacheableResponse:
    """Get a file of the web page."""
    content = _declared_objects(_keeps_history()) if file == _OBJECTS else _files().get(file)
    if content is None:
        raise ApiError(404, f"the page has no file {file!r}; open the page at /")
    return page_file(file, content, _POLICY)


@cache
def _files() -> dict[str, bytes]:
    folder = resources.files("mirror_server.extensions.page") / "files"
    files = {file.name: file.read_bytes() for file in folder.iterdir() if file.name.rpartition(".")[2] in TYPES}
    # The page uses the same components as the widgets of the notebooks.
    components = resources.files("mirror_sdk") / "widgets" / "ui" / _COMPONENTS
    return files | {_COMPONENTS: components.read_bytes()}


def _keeps_history() -> bool:
    """Return whether the server stores a history. If it does not, the page does not request the history."""
    # The setting is found by its name, because the extension with its class may be deleted.
    return any(getattr(one, "keep_history_seconds", None) is not None for one in services().settings.extensions)


@cache
def _declared_objects(keeps_history: bool) -> bytes:
    """Return the declarations of objects as JSON, from which the page reads names, types, units and ranges."""
    objects = {
        object_id: {"name": name, "resources": {one: _declaration(declared) for one, declared in resources.items()}}
        for object_id, (name, resources) in DECLARED_OBJECTS.items()
    }
    content = {
        "objects": objects,
        "units_resource": SENSOR_UNITS,
        "in_those_units": sorted(IN_SENSOR_UNITS),
        "constant_in_device": sorted(CONSTANT_IN_DEVICE),
        "constant": sorted(CONSTANT),
        "display_units": DISPLAY_UNITS,
        "keeps_history": keeps_history,
    }
    return orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS)


def _declaration(declared: ResourceDeclaration) -> dict[str, object]:
    return {name: value for name, value in declared._asdict().items() if value}
