"""The routes of an app. Without an extension, its routes and their rows in tables are missing."""

import runpy
from pathlib import Path
from typing import Any

from flask import Flask
from werkzeug.exceptions import MethodNotAllowed, NotFound


def has_route(app: Flask, method: str, path: str) -> bool:
    """Return whether an app has a route. Any segment of the path may be a placeholder."""
    try:
        app.url_map.bind("localhost").match(path, method)
    except (NotFound, MethodNotAllowed):
        return False
    return True


def of_extensions(table: str) -> list[Any]:
    """Return the rows that ``tests/extensions/NAME/routes.py`` adds to a table: ``ACCESS`` or ``BODIES``."""
    files = sorted(Path(__file__).parents[2].glob("extensions/*/routes.py"))
    return [found[table] for found in (runpy.run_path(str(file)) for file in files) if table in found]
