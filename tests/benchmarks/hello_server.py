"""A Flask app that says hello, on the same web server and with the same settings as the mirror.

Besides the mirror itself, it lacks only what the mirror adds to every request: authentication, a request id and a log.
"""

from __future__ import annotations

import sys
from typing import Any, cast

import uvicorn
from flask import Flask

from mirror_server.config import Settings
from mirror_server.web.asgi_bridge import ASGIBridge
from mirror_server.web.flask_app import MirrorApp

app = Flask(__name__)


@app.get("/")
def hello() -> str:
    return "Hello, World!"


def main() -> None:
    # The bridge calls it as any WSGI app, as long as it defers no response.
    bridge: Any = ASGIBridge(cast("MirrorApp", app), Settings(max_body_bytes=1024 * 1024, max_parked_polls=1))
    uvicorn.run(
        bridge,
        port=int(sys.argv[1]),
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
    )


if __name__ == "__main__":
    main()
