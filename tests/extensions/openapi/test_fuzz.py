"""The server with thousands of requests generated from its description: valid ones, invalid ones, and sequences."""

from itertools import chain

import pytest

from mirror_server.hooks import Extensions, read_settings
from tests.extensions.openapi.fuzzing import ROUTES, fuzz

ABSENT = tuple(chain(*Extensions().hook.openapi_exclusions(settings=read_settings())))


@pytest.mark.parametrize(("method", "path"), [route for route in ROUTES if not route[1].startswith(ABSENT)])
@pytest.mark.parametrize("fits", [True, False])
def test_valid_requests_get_described_responses_and_invalid_ones_are_rejected(shared_server, api, method, path, fits):
    fuzz(shared_server, api[path][method], fits=fits)
