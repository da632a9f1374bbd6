"""The page for people, as files: what a browser is allowed to do with them, and that they need nobody else."""

import re
from importlib import resources

import pytest

FILES = {file.name: file.read_text() for file in (resources.files("mirror_server") / "page").iterdir()}


TYPES = [("/", "text/html"), ("/page/page.css", "text/css"), ("/page/page.js", "text/javascript")]
OTHER_FILES = ["/page/nothing.js", "/page/..%2f__init__.py", "/page/__init__.py", "/page/%00", "/page"]


@pytest.mark.parametrize(("path", "media_type"), TYPES)
def test_it_is_given_without_a_key(server, path, media_type):
    answer = server.call(None, "GET", path)
    assert (answer.status_code, answer.mimetype) == (200, media_type)
    again = server.call(None, "GET", path, headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == 304


def test_a_browser_may_load_nothing_from_elsewhere_and_run_nothing_inline(server):
    policy = server.call(None, "GET", "/").headers["Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == rules["frame-ancestors"] == "'self'"
    assert server.call(None, "GET", "/").headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.parametrize("name", FILES)
def test_every_address_in_it_is_relative(name):
    assert not re.search(r"https?:|//[a-z]", FILES[name])
    assert not re.search(r"(?:src|href)=\"/", FILES[name])
    assert not re.search(r"[\"'`]/(?:v2|v3|page)", FILES[name])


def test_it_makes_no_markup_of_what_it_is_given():
    scripts = "".join(text for name, text in FILES.items() if name.endswith(".js"))
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", scripts)


@pytest.mark.parametrize("path", OTHER_FILES)
def test_there_are_no_other_files(server, key, path):
    assert server.call(key, "GET", path).status_code == 404
