"""Every row of the routing tables is a route of the server with all of its extensions.

Rows of an absent extension are not tested.
"""

from contextlib import closing
from itertools import chain
from pathlib import Path

from app_routes import has_route

from tests.server.conftest import Server
from tests.server.interface.test_access import ROUTES
from tests.server.interface.test_bodies import EVERY_BODY
from tests.server.interface.test_malformed_input import FIELDS, REPEATED, WITHOUT_HEAD


def test_every_row_is_a_route(tmp_path: Path) -> None:
    server = Server(tmp_path)
    repeated = [f"{method} {path}" for method, path, *_ in REPEATED]
    rows = [*ROUTES, *EVERY_BODY, *repeated, *(f"GET {path}" for path in chain(FIELDS, WITHOUT_HEAD))]
    with closing(server.services):
        assert [row for row in rows if not has_route(server.app, *row.split())] == []
