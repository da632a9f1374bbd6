"""Fixtures of the tests of the OpenAPI document."""

# ruff: noqa: PLC0415 - schemathesis takes seconds to load, which other tests do without

import pytest

from mirror_sdk.wire import routes
from mirror_server.hooks import installed


@pytest.fixture(scope="module")
def api(shared_server):
    """Load the description that the server returns. A device exists, so that not every response is a 404."""
    shared_server.my_key = shared_server.key()
    # A key with a webhook or a websocket cannot poll.
    shared_server.key_of_channel = {path: shared_server.key() for path in (routes.CALLBACK, routes.WEBSOCKET)}
    temperature = {"path": "/3303/0/5700", "value": "1", "observable": True, "writable": True}
    shared_server.device = shared_server.add_device(shared_server.my_key, "d", temperature)
    import schemathesis

    # An unknown query parameter is ignored, so the server does not reject it.
    config = schemathesis.Config.from_dict({"generation": {"allow-extra-parameters": False}})
    return schemathesis.openapi.from_wsgi(routes.DESCRIPTION, shared_server.app, config=config)


@pytest.fixture(autouse=True)
def no_long_polls_or_callbacks(monkeypatch):
    async def take(*_):
        """Replace the webhook's URL check, since generated URLs could lead anywhere."""

    monkeypatch.setattr("mirror_server.notifications.webhook_caller.WebhookCaller.put", take)
    monkeypatch.setattr("mirror_server.views.notifications.DEFAULT_HOLD_SECONDS", 0)
    if "streams" in installed():
        monkeypatch.setattr("mirror_server.extensions.streams.event_stream._LONGEST_SECONDS", 0)
