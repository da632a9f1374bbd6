# Made from async_subscription_rules.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""The presubscription rules of an application: ``client.subscriptions.rules`` of a synchronous client."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from mirror_sdk._service import operations as _operations
from mirror_sdk._service.rules import add_rules, remove_rules
from mirror_sdk._session.client_session import ClientSession
from mirror_sdk.resources.base import ClientResource
from mirror_sdk.wire.subscriptions import PresubscriptionRule

if TYPE_CHECKING:
    pass


class SubscriptionRules(ClientResource[ClientSession]):
    """The presubscription rules of this application: ``client.subscriptions.rules`` of a synchronous client.

    The service subscribes the matching resources of each device when it registers. All programs with the same access
    key share one list of rules.
    """

    def list(self, *, timeout: float | None = None) -> builtins.list[PresubscriptionRule]:
        """The presubscription rules of this application, in their order. Source: wire.md 3.

        >>> client.subscriptions.rules.list()
        []
        """
        return self._session.send(_operations.get_presubscriptions(), timeout).rules

    def replace(
        self,
        rules: Iterable[PresubscriptionRule | Mapping[str, object]],
        *,
        apply_now: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Replace all presubscription rules; none at all clears them.

        That takes away those of others who use this key, too; ``client.subscriptions.rules.add()`` leaves them.

        Args:
            rules: Rules, or mappings such as ``{"endpoint_type": "Light", "resource_path": ["/3303/*"]}``.
            apply_now: Whether devices that are registered now are checked as well, not only at their next
                registration or registration update. In a large fleet that goes on after the call has returned.
            timeout: Seconds the call may take, instead of the client's.

        Raises:
            BadRequest: The service does not take a rule.
            ValueError: A rule cannot be sent; the message names what is wrong with it.

        Source: specification E3, 3.3; wire.md 3.

        >>> rule = {"endpoint_type": "Light", "resource_path": ["/3311/*"]}
        >>> client.subscriptions.rules.replace([rule], apply_now=True)
        """
        self._session.send(_operations.put_presubscriptions(rules, apply_now=apply_now), timeout)

    def add(
        self,
        rules: Iterable[PresubscriptionRule | Mapping[str, object]],
        *,
        apply_now: bool = False,
        timeout: float | None = None,
    ) -> builtins.list[PresubscriptionRule]:
        """Have these presubscription rules beside those there are; what others add or remove meanwhile stays.

        All that use this key share its rules: other programs, notebooks, cells. The list is read and put back with its
        ``ETag``, again and again where others changed it meanwhile. A service that tells none puts it in any case: what
        others do in just this moment is lost there.

        Rules are the same whatever the order of their paths; a member that is ``*`` is one that is absent.

        Args:
            rules: Rules, or mappings such as ``{"endpoint_type": "Light", "resource_path": ["/3303/*"]}``.
            apply_now: Whether devices that are registered now are checked as well, not only at their next
                registration or registration update.
            timeout: Seconds the call may take, instead of the client's.

        Returns:
            Those that were not there before; a rule that was there already stays as it is.

        Raises:
            BadRequest: The service does not take a rule; none of them was added.
            CallTimeout: It took too long, also because others changed the rules again and again.
            ValueError: A rule cannot be sent, or the key would have more than 1024; the message says which.

        Source: specification E3, 3.3; wire.md 3, where ``ETag`` and ``If-Match`` are an extension.

        >>> lights = {"endpoint_type": "Light", "resource_path": ["/3311/*"]}
        >>> client.subscriptions.rules.add([lights], apply_now=True)
        [PresubscriptionRule(endpoint_name=None, endpoint_type='Light', resource_path=['/3311/*'])]
        >>> client.subscriptions.rules.add([lights])
        []
        """
        return self._session.run(add_rules(rules, apply_now=apply_now), timeout)

    def remove(
        self, rules: Iterable[PresubscriptionRule | Mapping[str, object]], *, timeout: float | None = None
    ) -> builtins.list[PresubscriptionRule]:
        """Take these presubscription rules away; all others stay, also what others add meanwhile.

        What these rules subscribed goes on until the devices register anew; ``client.subscriptions.delete_all()`` ends
        it at once. For the rest see ``client.subscriptions.rules.add()``.

        Args:
            rules: Rules, or mappings such as ``{"endpoint_type": "Light", "resource_path": ["/3303/*"]}``.
            timeout: Seconds the call may take, instead of the client's.

        Returns:
            Those that were there.

        Raises:
            CallTimeout: It took too long, also because others changed the rules again and again.
            ValueError: Something given is no rule; the message names what is wrong with it.

        Source: specification E3, 3.3; wire.md 3, where ``ETag`` and ``If-Match`` are an extension.

        >>> lights = {"endpoint_type": "Light", "resource_path": ["/3311/*"]}
        >>> client.subscriptions.rules.remove([lights])
        []
        """
        return self._session.run(remove_rules(rules), timeout)

    def delete_all(self, *, timeout: float | None = None) -> None:
        """Remove all presubscription rules, including those of other programs with this key; see :meth:`remove`.

        Source: wire.md 3.

        >>> client.subscriptions.rules.delete_all()
        """
        self._session.send(_operations.delete_presubscriptions(), timeout)
