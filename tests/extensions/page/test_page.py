"""The files of the web page: their content security policy, and no dependence on other hosts."""

import re
from importlib import resources
from pathlib import Path

from mirror_sdk.object_definitions import IN_SENSOR_UNITS, SENSOR_UNITS, lookup
from mirror_sdk.wire.object_definitions import DISPLAY_UNITS
from mirror_server.core.commands import Failure

FILES = {file.name: file.read_text() for file in (resources.files("mirror_server.extensions.page") / "files").iterdir()}
UI = Path(str(resources.files("mirror_sdk") / "widgets" / "ui"))
SOURCES = {file.name: file.read_text() for file in (UI / "src").rglob("*.ts*")}

TYPES = [
    ("/", "text/html"),
    ("/page/page.js", "text/javascript"),
    ("/page/ui.js", "text/javascript"),
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


def test_every_address_in_it_is_relative():
    for text in [*FILES.values(), *(file.read_text() for file in (UI / "src" / "page").iterdir())]:
        assert not re.search(r"https?:", text)
        assert not re.search(r"(?:src|href)=\"/", text)
        assert not re.search(r"[\"'`]/(?:v2|v3|page)", text)


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
    assert declared["keeps_history"] is False


def test_it_knows_why_requests_fail():
    why = SOURCES["marks.ts"].split("const WHY: Record<string, string> = {")[1].split("};")[0]
    assert all(f"  {failure.value[1]}: " in why for failure in Failure)
    # Also of reads and executions.
    assert "read-only" not in why


def test_scripts_never_insert_markup():
    scripts = "".join([*SOURCES.values(), FILES["page.js"]])
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", scripts)


def test_a_demo_announces_it_with_its_key(server):
    announced = server.services.announcements("http://127.0.0.1:8080", "ak_1")
    assert "In a browser: http://127.0.0.1:8080/#key=ak_1" in announced


def test_an_unknown_parameter_is_read(server):
    assert server.call(None, "GET", "/?misspelt=1").status_code == 200
