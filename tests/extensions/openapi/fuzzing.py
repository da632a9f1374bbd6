"""Requests to a server, generated from its own description: valid ones, invalid ones, and sequences."""

# ruff: noqa: PLC0415 - schemathesis takes seconds to load, which other tests do without

import importlib
import pkgutil
from itertools import chain

from flask import Blueprint, Flask
from hypothesis import HealthCheck, Phase, given, settings

from mirror_sdk.wire import routes
from mirror_server import views
from mirror_server.extensions.openapi.views import each_route
from mirror_server.hooks import Extensions


def app_without_server():
    app = Flask(__name__, static_folder=None)
    names = [part.name for part in pkgutil.iter_modules(views.__path__, f"{views.__name__}.")]
    parts = map(importlib.import_module, names)
    own = [part.routes for part in parts if isinstance(getattr(part, "routes", None), Blueprint)]
    for routes_of_part in chain(own, *Extensions().hook.blueprints()):
        app.register_blueprint(routes_of_part)
    return app


FOR_PEOPLE = {("get", path) for path in (routes.PAGE, routes.PAGE_FILE, routes.REFERENCE, routes.REFERENCE_FILE)}
ROUTES = sorted({(route.method, route.path) for route in each_route(app_without_server())} - FOR_PEOPLE)
TEXT_LISTS = {
    f"{name}__{test}"
    for name in ("id", "name", "endpoint_name", "endpoint_type", "query", "description", "device_id", "event_type")
    for test in ("in", "nin")
} | {"path"}
"""Lists of texts, for which any value is valid: a number, or nothing, counts as a list with one text."""

MANY = settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def prepare(server, case):
    """Replace a valid hold by 0, and send about half of the requests to an existing device."""
    hold = str(case.query.get("hold", ""))
    if hold.isdecimal() and int(hold) <= routes.MAX_HOLD_SECONDS:
        case.query["hold"] = 0
    if "device_id" in case.path_parameters and len(str(case.path_parameters["device_id"])) % 2:
        case.path_parameters["device_id"] = server.device


def send(server, case):
    prepare(server, case)
    key = server.key_of_channel.get(case.path, server.my_key)
    return case.call(headers={"Authorization": f"Bearer {key}"})


def validate(case, response, *more_checks):
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    response_checks = [checks.status_code_conformance, checks.content_type_conformance]
    response_checks += [checks.response_schema_conformance, checks.response_headers_conformance]
    case.validate_response(response, checks=[not_a_server_error, *response_checks, *more_checks])


def negative_data_rejection(context, response, case):
    from schemathesis.specs.openapi import checks

    # An empty object or list sends nothing, so the request stays valid.
    is_unsent = any(value in ({}, []) for value in case.query.values())
    is_right = is_unsent or TEXT_LISTS & case.query.keys()
    return None if is_right else checks.negative_data_rejection(context, response, case)


def fuzz(server, operation, *changes, fits):
    """Send valid and invalid requests of an operation, and check the responses.

    ``changes`` are applied to each case before it is sent.
    """
    from schemathesis import GenerationMode

    if not fits and not list(operation.iter_parameters()) and not operation.body:
        return
    mode, more_checks = (GenerationMode.POSITIVE, []) if fits else (GenerationMode.NEGATIVE, [negative_data_rejection])

    @MANY
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case):
        for change in changes:
            change(case)
        validate(case, send(server, case), *more_checks)

    check()
