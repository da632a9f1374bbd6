"""Changing the presubscription rules of a key, which all that use it share, without undoing what others do meanwhile.

The rules are one list, which is replaced as a whole: it is read, changed, and put back with the tag it was read with. A
service puts it only while the list is still that one, and otherwise it is read again. One that tells no tag puts it in
any case, so that what others did in between is lost.

Two rules are the same if they mean the same resources word for word: the order of paths and repeated ones do not
matter, and a member that is ``*`` is one that is absent. A rule that another one includes is still a rule of its own.

Nothing in here does I/O: what is to be sent is yielded, and the client sends it. Source: wire.md 3.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias

from mirror_sdk._protocol import operations as _operations
from mirror_sdk._protocol.backoff import Backoff
from mirror_sdk._protocol.steps import Pause, Steps, Work
from mirror_sdk.errors import CallTimeout, InvalidValue, PreconditionFailed
from mirror_sdk.wire.subscriptions import MAX_RULES, PresubscriptionRule

_FIRST_PAUSE_SECONDS = 0.02
"""Long enough for another's change: who comes too late has to begin again."""
_ALL = frozenset({"*", "/*"})

_Rules: TypeAlias = Mapping[Hashable, PresubscriptionRule]
"""Rules by what they mean."""


def add_rules(
    rules: Iterable[_operations.RuleLike],
    *,
    apply_now: bool,
    announce: Callable[[list[PresubscriptionRule]], object] | None = None,
) -> Steps[list[PresubscriptionRule]]:
    """Have these rules among those of the key; gives those that were not there.

    Args:
        rules: The rules.
        apply_now: Whether they are applied to the devices that are registered now.
        announce: Called with those that are about to be added, before each attempt.

    Raises:
        CallTimeout: Others changed the rules each time, as long as there was time.
        TypeError: A single rule was given where a list of them belongs.
        ValueError: A rule cannot be sent, or there would be too many.
    """
    given = _by_meaning(_operations.checked_rules(rules))

    def missing(there: _Rules) -> list[Hashable]:
        return [meaning for meaning in given if meaning not in there]

    def with_them(listed: list[PresubscriptionRule], lacking: list[Hashable]) -> list[PresubscriptionRule]:
        if len(listed) + len(lacking) > MAX_RULES:
            raise InvalidValue(
                f"rules: with {len(lacking)} more this key would have {len(listed) + len(lacking)}, and {MAX_RULES} is"
                " the most; remove_presubscriptions() takes away what is not needed"
            )
        return [*listed, *(given[meaning] for meaning in lacking)]

    return _change(given, missing, with_them, apply_now=apply_now, announce=announce)


def remove_rules(rules: Iterable[_operations.RuleLike]) -> Steps[list[PresubscriptionRule]]:
    """Have none of these rules among those of the key; gives those that were there.

    Raises:
        CallTimeout: Others changed the rules each time, as long as there was time.
        TypeError: A single rule was given where a list of them belongs.
        ValueError: A rule cannot be sent.
    """
    given = _by_meaning(_operations.checked_rules(rules))

    def present(there: _Rules) -> list[Hashable]:
        return [meaning for meaning in given if meaning in there]

    def without_them(listed: list[PresubscriptionRule], found: list[Hashable]) -> list[PresubscriptionRule]:
        return [rule for rule in listed if meaning_of(rule) not in found]

    return _change(given, present, without_them, apply_now=False)


def meaning_of(rule: PresubscriptionRule) -> Hashable:
    """What two rules have in common that are the same."""
    paths = frozenset(rule.resource_path or _ALL)
    return (
        rule.endpoint_name or "*",
        rule.endpoint_type or "*",
        _ALL if paths & _ALL else paths,
        # Of a later version of the interface.
        repr(sorted((rule.model_extra or {}).items())),
    )


def _by_meaning(rules: Iterable[PresubscriptionRule]) -> dict[Hashable, PresubscriptionRule]:
    found: dict[Hashable, PresubscriptionRule] = {}
    for rule in rules:
        found.setdefault(meaning_of(rule), rule)
    return found


def _change(
    given: _Rules,
    find_open: Callable[[_Rules], list[Hashable]],
    change: Callable[[list[PresubscriptionRule], list[Hashable]], list[PresubscriptionRule]],
    *,
    apply_now: bool,
    announce: Callable[[list[PresubscriptionRule]], object] | None = None,
) -> Steps[list[PresubscriptionRule]]:
    backoff = Backoff(first_seconds=_FIRST_PAUSE_SECONDS)
    done: set[Hashable] = set()
    while given:
        found = yield _operations.get_presubscriptions()
        to_do = find_open(_by_meaning(found.rules))
        if not to_do and not apply_now:
            break
        changed = change(found.rules, to_do)
        if announce is not None:
            yield Work(partial(announce, [given[meaning] for meaning in given if meaning in {*done, *to_do}]))
        try:
            yield _operations.put_presubscriptions(changed, apply_now=apply_now, tag=found.tag)
        except PreconditionFailed as error:
            if error.attempts > 1:
                # The answer to an earlier attempt was lost: it may have been this one that changed them.
                done |= set(to_do)
            yield from _wait(Pause(backoff.failed()), error)
        else:
            done |= set(to_do)
            break
    return [rule for meaning, rule in given.items() if meaning in done]


def _wait(pause: Pause, refusal: PreconditionFailed) -> Steps[Any]:
    try:
        yield pause
    except CallTimeout as over:
        raise CallTimeout(f"others changed the rules of this key each time before it was done: {over}") from refusal
