"""The app for waitress and gunicorn, which logs its requests as ``mirror-server run`` does."""

from mirror_server import wsgi
from mirror_server.app import MirrorApp
from mirror_server.logging_format import configure


def create() -> MirrorApp:
    configure("console")
    return wsgi.create()
