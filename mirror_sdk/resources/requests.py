# Made from async_requests.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""The device requests of an application: ``client.requests`` of a synchronous client."""

from __future__ import annotations

import builtins
from functools import partial

from mirror_sdk._service import operations as _operations
from mirror_sdk._session.client_session import ClientSession
from mirror_sdk.naming import (
    DeviceLike,
    id_of,
)
from mirror_sdk.resources.base import ClientResource
from mirror_sdk.wire.device_requests import WaitingRequest


class Requests(ClientResource[ClientSession]):
    """The device requests of this application; ``client.requests``."""

    def list(
        self, device_id: DeviceLike | None = None, *, timeout: float | None = None
    ) -> builtins.list[WaitingRequest]:
        """Return the requests of this application that have no response yet, the oldest first, without their payloads.

        Args:
            device_id: Only those for this device.
            timeout: Seconds the call may take, instead of the client's.

        Raises:
            NotFound: The device does not exist, or the service lacks this extension.

        Source: wire.md 2.

        >>> client.requests.list()
        []
        """
        deadline = self._session.sender.deadline(timeout)
        asked = (
            None if device_id is None else self._session.run(id_of(self._session.names, device_id, anew=True), deadline)
        )
        return self._session.collect(partial(_operations.list_waiting_requests, asked), deadline)
