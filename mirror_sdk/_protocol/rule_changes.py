"""Changes the presubscription rules of a key without undoing concurrent changes by other programs with this key.

The rules are one list, which can only be replaced as a whole. So read the list, change it, and write it with the tag
that came with it. The service accepts it only while the list still has this tag; otherwise it is read again. A service
without tags accepts it nevertheless, so that concurrent changes are lost.

Two rules are the same if they mean the same resources word for word. The order of paths and repeated paths do not
matter, and a member that is ``*`` is the same as an absent one. A rule stays in the list even if another rule includes
it.

Nothing in here does I/O: it yields the operations, and the client sends them. Source: wire.md 3.
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
"""A pause that is long enough for a concurrent change, after which the slower program starts again."""
_ALL = frozenset({"*", "/*"})

_Rules: TypeAlias = list[PresubscriptionRule]
_ByMeaning: TypeAlias = dict[Hashable, PresubscriptionRule]


def add_rules(
    rules: Iterable[_operations.RuleLike],
    *,
    apply_now: bool,
    announce: Callable[[_Rules], object] | None = None,
) -> Flow[_Rules]:
    """Add these rules to the rules of the key. Return the rules that were new.

    Args:
        rules: The rules.
        apply_now: Whether they are applied to the devices that are registered now.
        announce: Called with the rules that are about to be added, before each attempt.

    Raises:
        CallTimeout: Other programs changed the rules at each attempt, until the time was over.
        TypeError: A single rule was passed instead of a list.
        ValueError: A rule cannot be sent, or there would be too many.
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
    """Remove these rules from the rules of the key. Return the rules that were removed.

    Raises:
        CallTimeout: Other programs changed the rules at each attempt, until the time was over.
        TypeError: A single rule was passed instead of a list.
        ValueError: A rule cannot be sent.
    """

    def remove(listed: _Rules, requested: _ByMeaning) -> tuple[AbstractSet[Hashable], _Rules]:
        found = requested.keys() & {meaning_of(rule) for rule in listed}
        return found, [rule for rule in listed if meaning_of(rule) not in found]

    return _change(rules, remove, apply_now=False)


def meaning_of(rule: PresubscriptionRule) -> Hashable:
    """Return a value that is equal for rules that are the same."""
    # A missing member selects everything, like "*".
    paths = frozenset(rule.resource_path or _ALL)
    return (
        rule.endpoint_name or "*",
        rule.endpoint_type or "*",
        _ALL if paths & _ALL else paths,
        # Members of a later version of the interface.
        repr(sorted((rule.model_extra or {}).items())),
    )


def _change(
    rules: Iterable[_operations.RuleLike],
    change: Callable[[_Rules, _ByMeaning], tuple[AbstractSet[Hashable], _Rules]],
    *,
    apply_now: bool,
    announce: Callable[[_Rules], object] | None = None,
) -> Flow[_Rules]:
    """Change the list of rules until no other program interferes.

    Args:
        rules: The rules to add or to remove.
        change: Takes the current list and these rules. Returns the meanings of the changed rules, and the new list.
        apply_now: Whether the new list is sent even if it is the current one.
        announce: Called with the rules that are about to change.
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
            # With the rules of earlier attempts: one of them may have succeeded although its response was lost.
            yield Work(partial(announce, _select(requested, done | to_do)))
        try:
            yield _operations.put_presubscriptions(changed, apply_now=apply_now, tag=found.tag)
        except PreconditionFailed as error:
            if error.attempts > 1:
                # The response to an earlier attempt was lost, and that attempt may have made this change.
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
