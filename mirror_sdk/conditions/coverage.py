"""The subscription rules that deliver the values of conditions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from mirror_sdk.conditions.condition import Condition
from mirror_sdk.errors import InvalidValue
from mirror_sdk.wire.paths import matches
from mirror_sdk.wire.subscriptions import PresubscriptionRule


def checked_conditions(conditions: object) -> list[Condition]:
    """Return the conditions of a list, which may contain their texts.

    Raises:
        TypeError: The argument is not a list of conditions.
        InvalidValue: A text is not a condition.
    """
    if isinstance(conditions, Condition | str) or not isinstance(conditions, Iterable):
        raise TypeError(f"conditions must be a list of Condition, not {conditions!r}; write [condition]")
    return [_checked(one) for one in conditions]


def _checked(one: object) -> Condition:
    if not isinstance(one, Condition | str):
        raise TypeError(f"each of conditions must be a Condition or its text, not {one!r}")
    try:
        return Condition.parse(one) if isinstance(one, str) else one
    except InvalidValue as exc:
        raise InvalidValue(f"conditions: {exc}") from exc


def watched_conditions(conditions: object) -> list[Condition]:
    """Return the conditions of a watch.

    Raises:
        TypeError: The argument is not a list of conditions.
        InvalidValue: A text is not a condition, there are no conditions, or one occurs twice.
    """
    found = checked_conditions(conditions)
    if not found:
        raise InvalidValue("conditions is empty; pass at least one condition")
    if len(set(found)) < len(found):
        raise InvalidValue("conditions contains a condition twice; pass each condition once")
    return found


def rules_for(conditions: Iterable[Condition], devices: Sequence[str] | None) -> list[dict[str, object]]:
    """Return the rules that subscribe to the resources of conditions, for these devices or for all."""
    names: list[dict[str, object]] = [{}] if devices is None else [{"endpoint_name": device} for device in devices]
    return [{**name, "resource_path": _patterns(conditions)} for name in names]


def uncovered(
    conditions: Iterable[Condition], rules: Sequence[PresubscriptionRule], subscribed: Collection[str]
) -> list[str]:
    """Return the paths of conditions that no rule and no subscribed resource matches."""
    paths = dict.fromkeys(clause.path for one in conditions for clause in one.clauses)
    clauses = {clause.path: clause for one in conditions for clause in one.clauses}
    patterns = [pattern for rule in rules for pattern in rule.resource_path or ["*"]]
    return [
        path
        for path in paths
        if not any(_overlap(pattern, _pattern(path)) for pattern in patterns)
        and not any(map(clauses[path].matches, subscribed))
    ]


def missing_paths(conditions: Iterable[Condition], existing: Collection[str]) -> list[str]:
    """Return the paths of conditions that match no existing resource."""
    clauses = {clause.path: clause for one in conditions for clause in one.clauses}
    return [path for path, clause in clauses.items() if not any(map(clause.matches, existing))]


def _patterns(conditions: Iterable[Condition]) -> list[str]:
    return list(dict.fromkeys(_pattern(clause.path) for one in conditions for clause in one.clauses))


def _pattern(path: str) -> str:
    """Return the pattern of a rule, in which ``*`` is allowed only at the end."""
    start, star, _ = path.partition("*")
    return start + star


def _overlap(one: str, other: str) -> bool:
    return matches(one, other.removesuffix("*")) or matches(other, one.removesuffix("*"))
