"""Webhooks: notifications that the service pushes, received by a small server or by your application.

``client.notifications.use_webhook(WebhookReceiver(...))`` switches from long polling to a webhook.
``client.notifications.use_long_polling()`` switches back. Events and responses arrive as they do with long polling.

A :class:`~mirror_sdk.WebhookReceiver` listens on a port of its own. In a web application of your own, keep a
:class:`~mirror_sdk.CallbackInbox` and pass each request to it. With Flask::

    inbox = CallbackInbox()

    @app.put("/callback")
    def callback():
        return "", inbox.receive(request.get_data(), request.headers)

With FastAPI::

    @app.put("/callback")
    async def callback(request: Request) -> Response:
        return Response(status_code=inbox.receive(await request.body(), request.headers))

Then call ``client.notifications.use_webhook(inbox, url="https://app.example.com/callback")``.

``python -m mirror_sdk.example_app`` is a complete small application (:mod:`mirror_sdk.example_app`).
``mirror-server help notifications`` describes how the service calls a webhook, and what a program receives when it
changes channels.
"""

from __future__ import annotations

from mirror_sdk.webhook.inbox import CallbackInbox, parse_callback
from mirror_sdk.webhook.receiver import WebhookReceiver

__all__ = ["CallbackInbox", "WebhookReceiver", "parse_callback"]


def __dir__() -> list[str]:
    return __all__
