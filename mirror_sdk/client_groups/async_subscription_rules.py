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
    - ``list()`` returns all rules; ``remove``, ``replace`` and ``delete_all`` change them.

    The service subscribes the matching resources of each device when it registers. All programs with the same access
    key share one list of rules.
    """

    _expression = "client.subscriptions.rules"

    async def list(self, *, timeout: float | None = None) -> builtins.list[PresubscriptionRule]:
        """Return the presubscription rules of this application, in their order.

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
        """Replace all presubscription rules; an empty list removes them.

        This also removes the rules of other programs with this access key. :meth:`add` keeps them.

        Args:
            rules: Rules, or mappings such as ``{"endpoint_type": "Light", "resource_path": ["/3303/*"]}``.
            apply_now: Whether the rules also apply to devices that are registered now, instead of only at their next
                registration or registration update. In a large fleet the service continues to apply them after the call
                has returned.
            timeout: Seconds the call may take, instead of the client's.

        Raises:
            BadRequest: The service rejects a rule.
            ValueError: A rule cannot be sent; the message says why.

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
        """Add presubscription rules. This keeps the changes that other programs make at the same time.

        All programs, notebooks and cells with this access key share one list of rules. The client reads the list, and
        writes it only if its ``ETag`` is still the same. Otherwise the client reads and writes the list again. If the
        service sends no ``ETag``, this call can overwrite a change that another program makes at the same moment.

        Two rules are equal if they differ only in the order of their paths. Leaving out a member has the same effect as
        ``*``.

        Args:
            rules: Rules, or mappings such as ``{"endpoint_type": "Light", "resource_path": ["/3303/*"]}``.
            apply_now: Whether the rules also apply to devices that are registered now, instead of only at their next
                registration or registration update.
            timeout: Seconds the call may take, instead of the client's.

        Returns:
            The rules that did not exist before. Existing rules stay as they are.

        Raises:
            BadRequest: The service rejects a rule; none of them was added.
            CallTimeout: It took too long, possibly because other programs kept changing the rules.
            ValueError: A rule cannot be sent, or the key would have more than 1024 rules; the message says which of the
                two.

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
        """Remove presubscription rules. All other rules stay, including rules that other programs add meanwhile.

        The subscriptions that these rules created remain until the device registers again.
        ``client.subscriptions.delete_all()`` ends them at once.

        Args:
            rules: Rules, or mappings such as ``{"endpoint_type": "Light", "resource_path": ["/3303/*"]}``.
            timeout: Seconds the call may take, instead of the client's.

        Returns:
            The rules that were removed.

        Raises:
            CallTimeout: It took too long, possibly because other programs kept changing the rules.
            ValueError: A value is not a rule; the message says why.

        >>> lights = {"endpoint_type": "Light", "resource_path": ["/3311/*"]}
        >>> await client.subscriptions.rules.remove([lights])
        []
        """
        return await self._session.run(remove_rules(rules), timeout)

    async def delete_all(self, *, timeout: float | None = None) -> None:
        """Remove all presubscription rules, including the rules of other programs with this key. See :meth:`remove`.

        >>> await client.subscriptions.rules.delete_all()
        """
        await self._session.sender.send(_operations.delete_presubscriptions(), timeout)
