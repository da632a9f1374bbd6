# Made from async_subscriptions.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""The subscriptions of an application: ``client.subscriptions`` of a synchronous client."""

from __future__ import annotations

import builtins
from functools import partial

from mirror_sdk._fork import lazy_property
from mirror_sdk._protocol import operations as _operations
from mirror_sdk.client_groups.base import ClientGroup
from mirror_sdk.client_groups.subscription_rules import SubscriptionRules
from mirror_sdk.device_lookup import DeviceLike
from mirror_sdk.wire.subscriptions import SubscriptionState


class Subscriptions(ClientGroup):
    """The subscriptions of this application: ``client.subscriptions`` of a synchronous client.

    - ``client.subscribe(device, path)`` and ``client.unsubscribe(device, path)`` add and remove a subscription.
    - ``rules.add([...])`` adds a rule. It subscribes to the matching resources of each device that registers.
    - ``list(device)`` returns the subscriptions to a device, and ``state(device, path)`` the state of one subscription.
    """

    _expression = "client.subscriptions"

    @lazy_property
    def rules(self) -> SubscriptionRules:
        """The presubscription rules, which create subscriptions when a device registers."""
        return SubscriptionRules(self._session)

    def list(self, device_id: DeviceLike, *, timeout: float | None = None) -> builtins.list[str]:
        """Return the resource paths of a device to which this application is subscribed.

        The list is empty for unknown devices.

        >>> client.subscriptions.list(station)
        []
        """
        return self._session.send_for(device_id, _operations.list_subscriptions, refresh=True, timeout=timeout)

    def state(self, device_id: DeviceLike, path: str, *, timeout: float | None = None) -> SubscriptionState:
        """Return the state of the subscription to a resource, for example that the device has accepted it.

        The state stays ``ASKED`` if the service does not report whether the device has accepted the subscription. It is
        ``NONE`` if there is no subscription, or if the device does not have the resource.

        >>> client.subscriptions.state(station, "/3303/0/5700")
        <SubscriptionState.NONE: 'none'>
        """
        return self._session.send_for(
            device_id, partial(_operations.get_subscription_state, path=path), refresh=True, timeout=timeout
        )

    def is_active(self, device_id: DeviceLike, path: str, *, timeout: float | None = None) -> bool:
        """Return whether this application is subscribed to a resource and the device has not rejected the subscription.

        >>> client.subscriptions.is_active(station, "/3303/0/5700")
        False
        """
        return self.state(device_id, path, timeout=timeout).is_active_or_pending

    def delete_all(self, device_id: DeviceLike, *, timeout: float | None = None) -> None:
        """Delete all subscriptions of this application to a device.

        >>> client.subscribe(station, "/3303/0/5700")
        >>> client.subscriptions.delete_all(station)
        """
        self._session.send_for(device_id, _operations.delete_subscriptions, refresh=True, timeout=timeout)
