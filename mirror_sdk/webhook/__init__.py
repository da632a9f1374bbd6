"""Receiving notifications by a webhook.

``client.notifications.use_webhook(WebhookReceiver(...))`` has notifications pushed instead of polled,
``client.notifications.use_long_polling()`` ends that. Events and responses come as they do by long polling. A
:class:`WebhookReceiver` is a small server of its own. In your own web application keep a :class:`CallbackInbox` and
pass it each request. With Flask::

    inbox = CallbackInbox()

    @app.put("/callback")
    def callback():
        return "", inbox.receive(request.get_data(), request.headers)

and with FastAPI::

    @app.put("/callback")
    async def callback(request: Request) -> Response:
        return Response(status_code=inbox.receive(await request.body(), request.headers))

Then ``client.notifications.use_webhook(inbox, url="https://app.example.com/callback")``. ``python -m
mirror_sdk.example_app`` is a complete small application (:mod:`mirror_sdk.example_app`). ``mirror-server help
notifications`` explains how a service calls a webhook, and what a program that changes channels receives.

Source: specification E4, E5; wire.md 4 and 5.
"""

from __future__ import annotations

from mirror_sdk.webhook.inbox import CallbackInbox, parse_callback
from mirror_sdk.webhook.receiver import WebhookReceiver

__all__ = ["CallbackInbox", "WebhookReceiver", "parse_callback"]


def __dir__() -> list[str]:
    return __all__
