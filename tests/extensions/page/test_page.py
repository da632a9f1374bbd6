"""The files of the web page: their content security policy, and their independence of other hosts."""

import re
from importlib import resources

import pytest

from mirror_sdk.object_table import IN_SENSOR_UNITS, SENSOR_UNITS, lookup
from mirror_sdk.wire.declarations import DISPLAY_UNITS
from mirror_server.core.commands import Failure

FILES = {file.name: file.read_text() for file in (resources.files("mirror_server.extensions.page") / "files").iterdir()}


TYPES = [
    ("/", "text/html"),
    ("/page/page.css", "text/css"),
    ("/page/page.js", "text/javascript"),
    ("/page/objects.json", "application/json"),
]
OTHER_FILES = ["/page/nothing.js", "/page/..%2f__init__.py", "/page/__init__.py", "/page/%00", "/page"]


def test_page_needs_no_key_and_can_be_cached_and_revalidated(server, key):
    for path, media_type in TYPES:
        answer = server.call(None, "GET", path)
        assert (answer.status_code, answer.mimetype) == (200, media_type)
        assert answer.headers.getlist("Cache-Control") == ["no-cache"]
        assert answer.headers.getlist("X-Content-Type-Options") == ["nosniff"]
        again = server.call(None, "GET", path, headers={"If-None-Match": answer.headers["ETag"]})
        assert again.status_code == 304
    for path in OTHER_FILES:
        assert server.call(key, "GET", path).status_code == 404


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


def test_declarations_of_the_page_equal_those_of_the_client(server):
    declared = server.call(None, "GET", "/page/objects.json").json
    assert declared["units_resource"] == SENSOR_UNITS
    assert set(declared["in_those_units"]) == IN_SENSOR_UNITS
    for object_id, content in declared["objects"].items():
        for resource_id, one in content["resources"].items():
            definition = lookup(f"/{object_id}/0/{resource_id}")
            assert definition.label == f"{content['name']} · {one['name']}"
            assert (definition.type, definition.access) == (one["type"], one["access"])
            assert definition.unit == one.get("unit", "")
            assert definition.range == (tuple(one["range"]) if "range" in one else None)
    assert {"3", "3303", "3311"} <= set(declared["objects"])
    assert declared["display_units"] == DISPLAY_UNITS


def test_it_knows_why_requests_fail():
    assert all(f"  {failure.value[1]}: " in FILES["resource.js"] for failure in Failure)
    # Of reads and executions too.
    assert "read-only" not in FILES["resource.js"].split("const WHY = {")[1].split("};")[0]


def test_scripts_never_insert_markup():
    scripts = "".join(text for name, text in FILES.items() if name.endswith(".js"))
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", scripts)


def test_a_demo_announces_it_with_its_key(server):
    announced = server.services.announcements("http://127.0.0.1:8080", "ak_1")
    assert "In a browser: http://127.0.0.1:8080/#key=ak_1" in announced


def test_an_unknown_parameter_is_read(server):
    assert server.call(None, "GET", "/?misspelt=1").status_code == 200
