"""The registration of a client's webhook, which other programs with the same key can replace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mirror_sdk._protocol.flow import Flow
from mirror_sdk._protocol.operations import put_callback
from mirror_sdk.errors import BadRequest, ChannelGone
from mirror_sdk.webhook.inbox import TOKEN_HEADER
from mirror_sdk.wire.channel import CallbackRegistration
from mirror_sdk.wire.errors import ErrorBody

SILENCE_SECONDS = 5.0
"""The time without a call of the webhook after which a client reads the service's log."""


def register(url: str, headers: Mapping[str, str]) -> Flow[bool]:
    """Register a webhook, without numbers of entries if the service does not support them.

    Returns:
        Whether the service sends numbers, and so has a log that can be read.

    Raises:
        BadRequest: The service rejects the webhook.
        ValueError: The URL or the headers cannot be registered.
    """
    try:
        yield put_callback(url, headers, with_seq=True)
    except BadRequest as error:
        # A service without numbers rejects the complete registration, and names the member that it does not know.
        if not any("include_seq" in text for text in (error.message, *(field.name for field in error.fields))):
            raise
        yield put_callback(url, headers, with_seq=False)
        return False
    return True


@dataclass(slots=True)
class RegisteredWebhook:
    """The webhook that a client registered, which all its readers share.

    Attributes:
        url: The address it was registered with.
        token: The token it was registered with. Another program registers another webhook.
        log_end: The end of the service's log at the registration; ``None`` if the service has no such log.
        is_replaced: Whether another program with the same key removed this webhook, or registered another.
    """

    url: str
    token: str
    log_end: int | None
    is_replaced: bool = False

    def note(self, found: CallbackRegistration | None) -> None:
        """Compare the webhook with the currently registered webhook.

        Raises:
            ChannelGone: The webhook was replaced, and there is no log to read instead.
        """
        tokens = [value for name, value in ((found and found.headers) or {}).items() if name.lower() == TOKEN_HEADER]
        self.is_replaced = found is None or found.url != self.url or tokens not in ([], [self.token])
        if self.is_replaced and self.log_end is None:
            message = (
                f"the webhook {self.url} of this key was removed or replaced by another program, and the service has no"
                " log to read instead; give each program a key of its own, or call"
                " client.notifications.use_webhook() again"
            )
            raise ChannelGone(410, ErrorBody(code=410, type="gone", message=message))
