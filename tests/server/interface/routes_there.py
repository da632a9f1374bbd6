"""Which routes an app has: those of an extension are gone with it, and the rows of a table that name them are too."""

import runpy
from pathlib import Path
from typing import Any

from flask import Flask
from werkzeug.exceptions import MethodNotAllowed, NotFound


def is_there(app: Flask, method: str, path: str) -> bool:
    """Whether an app has a route; any part of the path may be a placeholder."""
    try:
        app.url_map.bind("localhost").match(path, method)
    except (NotFound, MethodNotAllowed):
        return False
    return True


def of_extensions(table: str) -> list[Any]:
    """What ``tests/extensions/NAME/routes.py`` of each extension has to add to a table: ``ACCESS`` or ``BODIES``."""
    files = sorted(Path(__file__).parents[2].glob("extensions/*/routes.py"))
    return [found[table] for found in (runpy.run_path(str(file)) for file in files) if table in found]
