"""The simulator is described as everything else is, where there is one."""

from mirror_sdk.wire import routes
from tests.extensions.openapi.test_openapi import (
    document,  # noqa: F401 - a fixture
    test_every_error_has_the_body_of_errors,  # noqa: F401 - the same of the simulator, as those below
    test_every_example_matches_its_schema,  # noqa: F401
    test_every_member_has_a_description,  # noqa: F401
    test_it_describes_the_routes_of_the_app_and_no_others,  # noqa: F401
    test_it_is_a_valid_openapi_document,  # noqa: F401
    test_it_names_every_supported_query_parameter,  # noqa: F401
    test_it_names_the_scopes_a_key_needs,  # noqa: F401
)


def test_a_server_without_a_simulator_describes_none(new_server):
    paths = new_server().call(None, "GET", "/openapi.json").json["paths"]
    assert routes.DEVICE_OBJECT in paths
    assert not [path for path in paths if path.startswith("/sim/")]
