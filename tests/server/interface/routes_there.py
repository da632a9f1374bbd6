"""Which routes an app has: those of an extension are gone with it, and the rows of a table that name them are too."""

from flask import Flask
from werkzeug.exceptions import MethodNotAllowed, NotFound


def is_there(app: Flask, method: str, path: str) -> bool:
    """Whether an app has a route; any part of the path may be a placeholder."""
    try:
        app.url_map.bind("localhost").match(path, method)
    except (NotFound, MethodNotAllowed):
        return False
    return True
