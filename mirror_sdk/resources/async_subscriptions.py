"""The subscriptions of an application: ``client.subscriptions`` of an asynchronous client."""

from __future__ import annotations

import builtins
from functools import cached_property, partial
from typing import TYPE_CHECKING

from mirror_sdk._service import operations as _operations
from mirror_sdk._session.async_client_session import AsyncClientSession
from mirror_sdk.naming import (
    DeviceLike,
)
from mirror_sdk.resources.async_subscription_rules import AsyncSubscriptionRules
from mirror_sdk.resources.base import ClientResource
from mirror_sdk.wire.subscriptions import SubscriptionState

if TYPE_CHECKING:
    pass


class AsyncSubscriptions(ClientResource[AsyncClientSession]):
    """The subscriptions of this application: ``client.subscriptions`` of an asynchronous client.

    ``client.subscribe()`` and ``client.unsubscribe()`` add and remove single ones.
    """

    @cached_property
    def rules(self) -> AsyncSubscriptionRules:
        """The presubscription rules, by which the service subscribes devices when they register."""
        return AsyncSubscriptionRules(self._session)

    async def list(self, device_id: DeviceLike, *, timeout: float | None = None) -> builtins.list[str]:
        """The paths this application subscribed of a device; none for an unknown device too. Source: wire.md 3.

        >>> await client.subscriptions.list(station)
        []
        """
        return await self._session.about(device_id, _operations.list_subscriptions, anew=True, timeout=timeout)

    async def state(self, device_id: DeviceLike, path: str, *, timeout: float | None = None) -> SubscriptionState:
        """What became of this application's subscription of a resource: whether the device accepted it.

        A service that does not tell whether the device accepted leaves it at ``ASKED``. A resource that the device does
        not have is ``NONE`` too.

        Source: wire.md 3.

        >>> await client.subscriptions.state(station, "/3303/0/5700")
        <SubscriptionState.NONE: 'none'>
        """
        return await self._session.about(
            device_id, partial(_operations.get_subscription_state, path=path), anew=True, timeout=timeout
        )

    async def is_active(self, device_id: DeviceLike, path: str, *, timeout: float | None = None) -> bool:
        """Whether this application subscribed the resource, and the device has not refused it. Source: wire.md 3.

        >>> await client.subscriptions.is_active(station, "/3303/0/5700")
        False
        """
        return await self._session.about(
            device_id, partial(_operations.get_subscription, path=path), anew=True, timeout=timeout
        )

    async def delete_all(self, device_id: DeviceLike, *, timeout: float | None = None) -> None:
        """End all subscriptions this application has of a device. Source: wire.md 3.

        >>> await client.subscribe(station, "/3303/0/5700")
        >>> await client.subscriptions.delete_all(station)
        """
        await self._session.about(device_id, _operations.delete_subscriptions, anew=True, timeout=timeout)
