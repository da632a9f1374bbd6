"""The simulator with requests generated from its description."""

import pytest

from mirror_sdk.wire import routes
from mirror_server.extensions.simulator.views import PREFIX
from tests.extensions.openapi.fuzzing import ROUTES, fuzz

HOUR_SECONDS = 3600
LONGEST_ADVANCE_SECONDS = 366 * 24 * HOUR_SECONDS


def pass_no_long_time(case):
    """Shorten long advances: more than a year must be rejected, and less would take long."""
    if case.path == routes.SIMULATOR_CLOCK and isinstance(case.body, dict):
        seconds = case.body.get("advance_seconds")
        if isinstance(seconds, int | float) and HOUR_SECONDS < seconds <= LONGEST_ADVANCE_SECONDS:
            case.body["advance_seconds"] = HOUR_SECONDS


@pytest.mark.parametrize(("method", "path"), [route for route in ROUTES if route[1].startswith(PREFIX)])
@pytest.mark.parametrize("fits", [True, False])
def test_valid_requests_get_described_responses_and_invalid_ones_are_rejected(shared_server, api, method, path, fits):
    fuzz(shared_server, api[path][method], pass_no_long_time, fits=fits)
