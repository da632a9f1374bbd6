"""The description includes the simulator if it is installed."""

from mirror_sdk.wire import routes
from tests.extensions.openapi.test_openapi import (
    document,  # noqa: F401 - a fixture
    test_document_has_every_supported_query_parameter,  # noqa: F401
    test_document_has_exactly_the_routes_of_the_app,  # noqa: F401
    test_document_has_the_required_scopes,  # noqa: F401
    test_document_is_valid_openapi,  # noqa: F401
    test_every_error_has_the_body_of_errors,  # noqa: F401 - the same of the simulator, as those below
    test_every_example_matches_its_schema,  # noqa: F401
    test_every_member_has_a_description,  # noqa: F401
)


def test_document_of_a_server_without_simulator_has_no_simulator_routes(new_server):
    paths = new_server().call(None, "GET", "/openapi.json").json["paths"]
    assert routes.DEVICE_OBJECT in paths
    assert not [path for path in paths if path.startswith("/sim/")]
