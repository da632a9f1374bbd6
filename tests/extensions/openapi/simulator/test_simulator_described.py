"""The simulator is described as everything else is, where there is one."""

from mirror_sdk.wire import routes
from tests.extensions.openapi.test_openapi import (
    document,  # noqa: F401 - a fixture
    test_every_error_has_the_body_of_errors,  # noqa: F401 - the same of the simulator, as those below
    test_every_example_is_what_its_schema_says,  # noqa: F401
    test_it_describes_the_routes_of_the_app_and_no_others,  # noqa: F401
    test_it_is_a_valid_openapi_document,  # noqa: F401
    test_it_names_every_parameter_of_the_query_that_is_not_refused,  # noqa: F401
    test_it_names_the_scopes_a_key_needs,  # noqa: F401
    test_it_says_what_every_member_means,  # noqa: F401
)


def test_a_server_without_a_simulator_describes_none(new_server):
    paths = new_server().call(None, "GET", "/openapi.json").json["paths"]
    assert routes.DEVICE_OBJECT in paths
    assert not [path for path in paths if path.startswith("/sim/")]
