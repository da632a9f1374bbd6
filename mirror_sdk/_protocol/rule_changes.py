"""Changes of an access key's presubscription rules that preserve concurrent changes of other programs.

The rules are one list, which can only be replaced as a whole. The client reads the list and its tag, changes it, and
sends it back with this tag. The service accepts the list only if the tag is still current. Otherwise, the client starts
again. A service without tags always accepts the list, so concurrent changes are lost.

Two rules are equal if they have the same members. The order of paths and repeated paths do not matter, and ``*`` is the
same as a missing member. A rule is also kept if another rule already includes all of its resources.

This module performs no I/O. Its generators yield the operations, and the client sends them. Source: wire.md 3.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from collections.abc import Set as AbstractSet
from functools import partial
from typing import TypeAlias

from mirror_sdk._protocol import operations as _operations
from mirror_sdk._protocol.backoff import Backoff
from mirror_sdk._protocol.flow import Flow, Sleep, Work
from mirror_sdk.errors import CallTimeout, InvalidValue, PreconditionFailed
from mirror_sdk.wire.subscriptions import MAX_RULES, PresubscriptionRule

_FIRST_PAUSE_SECONDS = 0.02
"""The first pause in seconds. A concurrent change takes less time, after which the slower program starts again."""
_ALL = frozenset({"*", "/*"})

_Rules: TypeAlias = list[PresubscriptionRule]
_ByMeaning: TypeAlias = dict[Hashable, PresubscriptionRule]


def add_rules(
    rules: Iterable[_operations.RuleLike],
    *,
    apply_now: bool,
    announce: Callable[[_Rules], object] | None = None,
) -> Flow[_Rules]:
    """Add these rules to those of the access key, and return the rules that were added.

    Args:
        rules: The rules to add.
        apply_now: Whether the rules also apply to devices that are already registered.
        announce: A function that is called before each attempt with the rules that are about to be added.

    Raises:
        CallTimeout: The timeout has elapsed. During each attempt, another program changed the rules.
        TypeError: A single rule was passed instead of a list.
        ValueError: A rule is not valid and cannot be sent, or the key would have too many rules.
    """

    def add(listed: _Rules, requested: _ByMeaning) -> tuple[AbstractSet[Hashable], _Rules]:
        missing = requested.keys() - {meaning_of(rule) for rule in listed}
        if len(listed) + len(missing) > MAX_RULES:
            raise InvalidValue(
                f"rules: this key would have {len(listed) + len(missing)} rules, but the limit is {MAX_RULES}; remove"
                " some with client.subscriptions.rules.remove(), or use patterns"
            )
        return missing, [*listed, *_select(requested, missing)]

    return _change(rules, add, apply_now=apply_now, announce=announce)


def remove_rules(rules: Iterable[_operations.RuleLike]) -> Flow[_Rules]:
    """Remove these rules from those of the access key, and return the rules that were removed.

    Raises:
        CallTimeout: The timeout has elapsed. During each attempt, another program changed the rules.
        TypeError: A single rule was passed instead of a list.
        ValueError: A rule is not valid and cannot be sent.
    """

    def remove(listed: _Rules, requested: _ByMeaning) -> tuple[AbstractSet[Hashable], _Rules]:
        found = requested.keys() & {meaning_of(rule) for rule in listed}
        return found, [rule for rule in listed if meaning_of(rule) not in found]

    return _change(rules, remove, apply_now=False)


def meaning_of(rule: PresubscriptionRule) -> Hashable:
    """Return a key that is the same for equal rules, so that rules can be compared and stored in mappings."""
    # A missing member selects everything, like "*".
    paths = frozenset(rule.resource_path or _ALL)
    return (
        rule.endpoint_name or "*",
        rule.endpoint_type or "*",
        _ALL if paths & _ALL else paths,
        # These members come from a later version of the interface.
        repr(sorted((rule.model_extra or {}).items())),
    )


def _change(
    rules: Iterable[_operations.RuleLike],
    change: Callable[[_Rules, _ByMeaning], tuple[AbstractSet[Hashable], _Rules]],
    *,
    apply_now: bool,
    announce: Callable[[_Rules], object] | None = None,
) -> Flow[_Rules]:
    """Change the list of rules, and repeat this until no other program has changed it in the meantime.

    Args:
        rules: The rules to add or to remove.
        change: A function that receives the current list and the rules by their keys. It returns the keys of the rules
            that it changes, and the new list.
        apply_now: Whether to send the new list even if it equals the current one.
        announce: A function that is called with the rules that are about to change.
    """
    requested: _ByMeaning = {}
    for rule in _operations.checked_rules(rules):
        requested.setdefault(meaning_of(rule), rule)
    backoff = Backoff(first_seconds=_FIRST_PAUSE_SECONDS)
    done: set[Hashable] = set()
    while requested:
        found = yield _operations.get_presubscriptions()
        to_do, changed = change(found.rules, requested)
        if not to_do and not apply_now:
            break
        if announce is not None:
            # Includes the rules of earlier attempts, because one of them may have succeeded although its response was
            # lost.
            yield Work(partial(announce, _select(requested, done | to_do)))
        try:
            yield _operations.put_presubscriptions(changed, apply_now=apply_now, tag=found.tag)
        except PreconditionFailed as error:
            if error.attempts > 1:
                # The response to an earlier attempt was lost. That attempt may have made this change.
                done |= to_do
            try:
                yield Sleep(backoff.failed())
            except CallTimeout as over:
                message = f"other programs kept changing the rules of this key during the call: {over}"
                raise CallTimeout(message) from error
        else:
            done |= to_do
            break
    return _select(requested, done)


def _select(requested: _ByMeaning, meanings: AbstractSet[Hashable]) -> _Rules:
    return [rule for meaning, rule in requested.items() if meaning in meanings]
