"""The presubscription rules of an application: ``client.subscriptions.rules`` of an asynchronous client."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping

from mirror_sdk._protocol import operations as _operations
from mirror_sdk._protocol.rule_changes import add_rules, remove_rules
from mirror_sdk.client_groups.base import AsyncClientGroup
from mirror_sdk.wire.subscriptions import PresubscriptionRule


class AsyncSubscriptionRules(AsyncClientGroup):
    """The presubscription rules of this application: ``client.subscriptions.rules`` of an asynchronous client.

    - ``add([{"endpoint_type": "Light", "resource_path": ["/3303/*"]}], apply_now=True)`` adds a rule.
    - ``list()`` returns all rules. ``remove``, ``replace`` and ``delete_all`` change them.

    When a device registers, the service subscribes to all of its resources that match a rule. All programs with the
    same access key share one list of rules.
    """

    _expression = "client.subscriptions.rules"

    async def list(self, *, timeout: float | None = None) -> builtins.list[PresubscriptionRule]:
        """Return the presubscription rules of this application in their stored order.

        >>> await client.subscriptions.rules.list()
        []
        """
        return (await self._session.sender.send(_operations.get_presubscriptions(), timeout)).rules

    async def replace(
        self,
        rules: Iterable[PresubscriptionRule | Mapping[str, object]],
        *,
        apply_now: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Replace all presubscription rules. An empty list removes all of them.

        This also removes the rules of other programs with the same access key. Use :meth:`add` to keep them.

        Args:
            rules: Rules, or mappings such as ``{"endpoint_type": "Light", "resource_path": ["/3303/*"]}``.
            apply_now: Whether the rules also apply at once to devices that are already registered. By default, they
                apply to a device when it registers or updates its registration. In a large fleet, the service continues
                to apply the rules after the call has returned.
            timeout: The timeout of this call in seconds. The default is the timeout of the client.

        Raises:
            BadRequest: The service rejects a rule.
            ValueError: A rule is not valid and cannot be sent. The message contains the reason.

        >>> rule = {"endpoint_type": "Light", "resource_path": ["/3311/*"]}
        >>> await client.subscriptions.rules.replace([rule], apply_now=True)
        """
        await self._session.sender.send(_operations.put_presubscriptions(rules, apply_now=apply_now), timeout)

    async def add(
        self,
        rules: Iterable[PresubscriptionRule | Mapping[str, object]],
        *,
        apply_now: bool = False,
        timeout: float | None = None,
    ) -> builtins.list[PresubscriptionRule]:
        """Add presubscription rules, without losing changes that other programs make at the same time.

        All programs, notebooks and cells with this access key share one list of rules. The client reads the list, and
        writes the new list only if the ``ETag`` of the old one is still the same. If another program has changed the
        list, the client repeats both steps. If the service sends no ``ETag``, this call can overwrite a change that
        another program makes at the same moment.

        Two rules are equal if they differ only in the order of their paths. If a member of a rule is missing, it has
        the same meaning as ``*``.

        Args:
            rules: Rules, or mappings such as ``{"endpoint_type": "Light", "resource_path": ["/3303/*"]}``.
            apply_now: Whether the rules also apply at once to devices that are already registered. By default, they
                apply to a device when it registers or updates its registration.
            timeout: The timeout of this call in seconds. The default is the timeout of the client.

        Returns:
            The rules that did not exist before. Existing rules are not changed.

        Raises:
            BadRequest: The service rejects one of the rules, and none of them was added.
            CallTimeout: The call took too long, possibly because other programs kept changing the rules.
            ValueError: A rule is not valid and cannot be sent, or the key would have more than 1024 rules. The message
                contains the reason.

        >>> lights = {"endpoint_type": "Light", "resource_path": ["/3311/*"]}
        >>> await client.subscriptions.rules.add([lights], apply_now=True)
        [PresubscriptionRule(endpoint_name=None, endpoint_type='Light', resource_path=['/3311/*'])]
        >>> await client.subscriptions.rules.add([lights])
        []
        """
        return await self._session.run(add_rules(rules, apply_now=apply_now), timeout)

    async def remove(
        self, rules: Iterable[PresubscriptionRule | Mapping[str, object]], *, timeout: float | None = None
    ) -> builtins.list[PresubscriptionRule]:
        """Remove presubscription rules. All other rules stay, including those that other programs add meanwhile.

        The subscriptions that a rule has created remain until the device registers again.
        ``client.subscriptions.delete_all()`` ends all subscriptions to a device at once.

        Args:
            rules: Rules, or mappings such as ``{"endpoint_type": "Light", "resource_path": ["/3303/*"]}``.
            timeout: The timeout of this call in seconds. The default is the timeout of the client.

        Returns:
            The rules that were removed.

        Raises:
            CallTimeout: The call took too long, possibly because other programs kept changing the rules.
            ValueError: A value is not a rule. The message contains the reason.

        >>> lights = {"endpoint_type": "Light", "resource_path": ["/3311/*"]}
        >>> await client.subscriptions.rules.remove([lights])
        []
        """
        return await self._session.run(remove_rules(rules), timeout)

    async def delete_all(self, *, timeout: float | None = None) -> None:
        """Remove all presubscription rules, including those of other programs with this access key.

        See :meth:`remove` for the effect on existing subscriptions.

        >>> await client.subscriptions.rules.delete_all()
        """
        await self._session.sender.send(_operations.delete_presubscriptions(), timeout)
