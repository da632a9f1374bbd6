"""The reference: pages built from the docstrings with the package. They contain no secrets, so no key is needed."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

from flask import Blueprint, Response, current_app, request
from werkzeug.security import safe_join

from mirror_server.core.errors import ApiError
from mirror_server.extensions.page.page_file import TYPES, page_file
from mirror_server.views.description import ResponseSpec, described, text_of
from mirror_server.views.requests import requires
from mirror_server.views.responses import CacheableResponse

FOLDER = "REFERENCE_FOLDER"
"""Key of the app's configuration with the folder of the pages, if they are not in the folder of the package."""

_BUILT = Path(__file__).parent / "built"
_INLINE = re.compile(rb"<script>(.*?)</script>", re.DOTALL)
_POLICY = (
    "default-src 'none'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline'; connect-src 'self';"
    " img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
)

routes = Blueprint("reference", __name__)


@routes.get("/reference")
@requires()
@described("Operation", ResponseSpec(302, "To the first page."), is_extension=True)
def get_reference() -> Response:
    """Get the reference of the Python packages."""
    # The links of a page are relative to the folder it is in.
    return Response(status=302, headers={"Location": f"{request.script_root}/reference/index.html"})


@routes.get("/reference/<path:file>")
@requires()
@described("Operation", ResponseSpec(200, "A page.", text_of("text/html", "<!doctype html>")), is_extension=True)
def get_reference_file(file: str) -> CacheableResponse:
    """Get a page of the reference, or a file that the page loads."""
    folder = Path(current_app.config.get(FOLDER, _BUILT))
    found = safe_join(str(folder), file)
    if found is None or file.rpartition(".")[2] not in TYPES or not Path(found).is_file():
        if not (folder / "index.html").is_file():
            message = (
                "this server runs from sources whose reference was not built; build it with 'python -m sphinx"
                " .ci/reference mirror_server/extensions/page/built' (see .github/CONTRIBUTING.md)"
            )
            raise ApiError(404, message)
        raise ApiError(404, f"the reference has no page {file!r}; open the first page at /reference/")
    content = Path(found).read_bytes()
    return page_file(file, content, _POLICY.format(scripts=" ".join(_hashes(content))))


def _hashes(content: bytes) -> list[str]:
    """Return the hashes of the inline scripts of a page. The browser runs no other inline scripts."""
    found = {match[1] for match in _INLINE.finditer(content)}
    return sorted(f"'sha256-{b64encode(sha256(script).digest()).decode()}'" for script in found)
