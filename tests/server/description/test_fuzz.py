"""The server under thousands of requests made from its own description, right ones and wrong ones."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from mirror_sdk.wire import routes
from mirror_server.description.operations import OPERATIONS

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]
# It calls the URLs it is given, which could be anywhere.
CALLS_OUT = {("put", routes.CALLBACK)}
FOR_PEOPLE = {("get", routes.PAGE), ("get", routes.PAGE_FILE)}
FUZZED = sorted(OPERATIONS.keys() - CALLS_OUT - FOR_PEOPLE)
MANY = settings(
    max_examples=40,
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
    shared_server.device = shared_server.add_device(
        shared_server.my_key, "d", {"path": "/3303/0/5700", "value": "1", "observable": True, "writable": True}
    )
    # An unknown parameter of the query is ignored, so it is nothing to refuse.
    config = schemathesis.Config.from_dict({"generation": {"allow-extra-parameters": False}})
    return schemathesis.openapi.from_wsgi(routes.DESCRIPTION, shared_server.app, config=config)


@pytest.fixture(autouse=True)
def nothing_is_held_open(monkeypatch):
    monkeypatch.setattr("mirror_server.views.notifications.DEFAULT_HOLD_SECONDS", 0)
    monkeypatch.setattr("mirror_server.views.event_stream._LONGEST_SECONDS", 0)


def send(server, case):
    """Send it with a key; half of the requests go to a device that is there."""
    if str(case.query.get("hold", "")).isdecimal():
        case.query["hold"] = 0
    if "device_id" in case.path_parameters and len(str(case.path_parameters["device_id"])) % 2:
        case.path_parameters["device_id"] = server.device
    return case.call(headers={"Authorization": f"Bearer {server.my_key}"})


@pytest.mark.parametrize(("method", "path"), FUZZED)
def test_whatever_fits_the_description_gets_an_answer_of_the_description(shared_server, api, method, path):
    @MANY
    @given(case=api[path][method].as_strategy(generation_mode=GenerationMode.POSITIVE))
    def check(case):
        case.validate_response(send(shared_server, case), checks=CHECKS)

    check()


@pytest.mark.parametrize(("method", "path"), FUZZED)
def test_what_does_not_fit_the_description_is_refused(shared_server, api, method, path):
    operation = api[path][method]
    if not list(operation.iter_parameters()) and not operation.body:
        return

    @MANY
    @given(case=operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def check(case):
        case.validate_response(send(shared_server, case), checks=[*CHECKS, negative_data_rejection])

    check()
