"""The reference: available to everyone, with the files that its pages load, and no others."""

import re
from base64 import b64encode
from hashlib import sha256

import pytest

from mirror_server.extensions.page.reference import FOLDER

SCRIPT = "document.body.dataset.theme = 'auto';"
INDEX = f'<!doctype html><link rel="stylesheet" href="_static/a.css"><script>{SCRIPT}</script>'
FILES = {"index.html": INDEX, "_static/a.css": "a{}", "_static/b.js": "1", "_static/c.png": "P", ".buildinfo": "b"}
TYPES = {
    "index.html": "text/html; charset=utf-8",
    "_static/a.css": "text/css; charset=utf-8",
    "_static/b.js": "text/javascript; charset=utf-8",
    "_static/c.png": "image/png",
}
NOWHERE = ["nothing.html", "_static", "_static/no.css", ".buildinfo", "..%2fsecret.html", "%2e%2e/secret.html", "%00"]


@pytest.fixture
def built(server, tmp_path):
    """A server with a built reference, and another file in the same folder."""
    for name, text in FILES.items():
        path = tmp_path / "pages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "secret.html").write_text("secret")
    server.app.config[FOLDER] = tmp_path / "pages"
    return server


def test_reference_needs_no_key_and_contains_no_other_files(built):
    for name, content_type in TYPES.items():
        answer = built.call(None, "GET", f"/reference/{name}")
        assert (answer.status_code, answer.text) == (200, FILES[name])
        assert answer.headers["Content-Type"] == content_type
        assert answer.headers.getlist("Cache-Control") == ["no-cache"]
        head = built.call(None, "HEAD", f"/reference/{name}")
        assert (head.status_code, head.data, head.headers["Content-Length"]) == (200, b"", str(len(FILES[name])))
        again = built.call(None, "GET", f"/reference/{name}", headers={"If-None-Match": answer.headers["ETag"]})
        assert again.status_code == 304
    for path in ("/reference", "/reference/"):
        answer = built.call(None, "GET", path)
        assert (answer.status_code, answer.headers["Location"]) == (302, "/reference/index.html")
    for name in NOWHERE:
        answer = built.call(None, "GET", f"/reference/{name}")
        assert (answer.status_code, answer.json["type"]) == (404, "not_found")
        assert answer.headers.getlist("Cache-Control") == ["no-store"]


def test_a_browser_loads_nothing_from_elsewhere_and_runs_only_the_script_that_was_built_in(built):
    policy = built.call(None, "GET", "/reference/index.html").headers["Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == "'none'"
    # Its search loads the other pages.
    assert rules["connect-src"] == rules["frame-ancestors"] == "'self'"
    assert rules["script-src"] == f"'self' 'sha256-{b64encode(sha256(SCRIPT.encode()).digest()).decode()}'"
    assert not re.search(r"https?:|\*", policy)


def test_where_it_was_not_built_that_is_said(server, tmp_path):
    server.app.config[FOLDER] = tmp_path / "nowhere"
    answer = server.call(None, "GET", "/reference/index.html")
    assert (answer.status_code, answer.json["type"]) == (404, "not_found")
    assert "was not built" in answer.json["message"]
