"""The server under thousands of requests made from its own description: right ones, wrong ones, and chains of them."""

# ruff: noqa: PLC0415 - schemathesis takes seconds to load, which other tests do without

import importlib
import pkgutil
from itertools import chain

import pytest
from flask import Blueprint, Flask
from hypothesis import HealthCheck, Phase, given, settings

from mirror_sdk.wire import routes
from mirror_server import views
from mirror_server.hooks import Extensions, installed
from mirror_server.views.description import each_route


def app_without_server():
    app = Flask(__name__, static_folder=None)
    names = [part.name for part in pkgutil.iter_modules(views.__path__, f"{views.__name__}.")]
    parts = map(importlib.import_module, names)
    own = [part.routes for part in parts if isinstance(getattr(part, "routes", None), Blueprint)]
    for routes_of_part in chain(own, *Extensions().hook.blueprints()):
        app.register_blueprint(routes_of_part)
    return app


FOR_PEOPLE = {("get", path) for path in (routes.PAGE, routes.PAGE_FILE, routes.REFERENCE, routes.REFERENCE_FILE)}
FUZZED = sorted({(route.method, route.path) for route in each_route(app_without_server())} - FOR_PEOPLE)
TEXT_LISTS = {
    f"{name}__{test}"
    for name in ("id", "name", "endpoint_name", "endpoint_type", "query", "description", "device_id", "event_type")
    for test in ("in", "nin")
} | {"path"}
"""Whatever is sent in place of such a list is one: a number, or nothing, is a list of one text."""
HOUR_SECONDS = 3600
LONGEST_ADVANCE_SECONDS = 366 * 24 * HOUR_SECONDS

MANY = settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def api(shared_server):
    """The description as the server gives it; a device is there, so that not everything is a 404."""
    shared_server.my_key = shared_server.key()
    # A key with a webhook or a websocket has no polls.
    shared_server.key_of_channel = {path: shared_server.key() for path in (routes.CALLBACK, routes.WEBSOCKET)}
    temperature = {"path": "/3303/0/5700", "value": "1", "observable": True, "writable": True}
    shared_server.device = shared_server.add_device(shared_server.my_key, "d", temperature)
    import schemathesis

    # An unknown parameter of the query is ignored, so it is nothing to refuse.
    config = schemathesis.Config.from_dict({"generation": {"allow-extra-parameters": False}})
    return schemathesis.openapi.from_wsgi(routes.DESCRIPTION, shared_server.app, config=config)


@pytest.fixture(autouse=True)
def nothing_is_held_open_or_called(monkeypatch):
    async def take(*_):
        """The URLs of webhooks could lead anywhere."""

    monkeypatch.setattr("mirror_server.notifications.outbound.Caller.put", take)
    monkeypatch.setattr("mirror_server.views.notifications.DEFAULT_HOLD_SECONDS", 0)
    if "streams" in installed():
        monkeypatch.setattr("mirror_server.extensions.streams.event_stream._LONGEST_SECONDS", 0)


def ask_for_nothing_that_takes_long(case):
    """A longer hold has to be refused, and so has a longer time to pass."""
    hold = str(case.query.get("hold", ""))
    if hold.isdecimal() and int(hold) <= routes.MAX_HOLD_SECONDS:
        case.query["hold"] = 0
    if case.path == routes.BENCH_CLOCK and isinstance(case.body, dict):
        seconds = case.body.get("advance_seconds")
        if isinstance(seconds, int | float) and HOUR_SECONDS < seconds <= LONGEST_ADVANCE_SECONDS:
            case.body["advance_seconds"] = HOUR_SECONDS


def prepare(server, case):
    """Half of the requests go to a device that is there."""
    ask_for_nothing_that_takes_long(case)
    if "device_id" in case.path_parameters and len(str(case.path_parameters["device_id"])) % 2:
        case.path_parameters["device_id"] = server.device


def send(server, case):
    prepare(server, case)
    key = server.key_of_channel.get(case.path, server.my_key)
    return case.call(headers={"Authorization": f"Bearer {key}"})


def validate(case, response, *more_checks):
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    of_answers = [checks.status_code_conformance, checks.content_type_conformance]
    of_answers += [checks.response_schema_conformance, checks.response_headers_conformance]
    case.validate_response(response, checks=[not_a_server_error, *of_answers, *more_checks])


def negative_data_rejection(context, response, case):
    from schemathesis.specs.openapi import checks

    return None if TEXT_LISTS & case.query.keys() else checks.negative_data_rejection(context, response, case)


@pytest.mark.parametrize(("method", "path"), FUZZED)
@pytest.mark.parametrize("fits", [True, False])
def test_what_fits_the_description_is_answered_as_it_says_and_what_does_not_is_refused(
    shared_server, api, method, path, fits
):
    from schemathesis import GenerationMode

    operation = api[path][method]
    if not fits and not list(operation.iter_parameters()) and not operation.body:
        return
    mode, more_checks = (GenerationMode.POSITIVE, []) if fits else (GenerationMode.NEGATIVE, [negative_data_rejection])

    @MANY
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case):
        validate(case, send(shared_server, case), *more_checks)

    check()
