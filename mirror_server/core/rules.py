"""An index of presubscription rules: which of them match a device and its resources.

Source: specification 3.3; wire.md 3.

An application may have 1024 rules with 256 path patterns each, and a device 1000 resources. Trying each rule with each
resource takes seconds. Here a string needs one lookup, and one more for each length of a prefix. The rules of a pattern
are the bits of one integer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

_MAX_CACHED_PATHS = 4096
"""The devices of a fleet have mostly the same paths."""


class RuleIndex:
    """The presubscription rules of one application.

    Args:
        rules: The rules as the JSON of the interface has them, checked, in their order.
    """

    def __init__(self, rules: Sequence[Mapping[str, Any]]) -> None:
        self._names = _Patterns((position, _listed(rule.get("endpoint-name"))) for position, rule in enumerate(rules))
        self._types = _Patterns((position, _listed(rule.get("endpoint-type"))) for position, rule in enumerate(rules))
        paths = _Patterns((position, rule.get("resource-path")) for position, rule in enumerate(rules))
        self._rules_of_path = lru_cache(maxsize=_MAX_CACHED_PATHS)(paths.matching)

    def positions(
        self, paths: Iterable[str], *, device_id: str, endpoint_name: str, endpoint_type: str
    ) -> dict[str, int]:
        """Return the resources of a device that a rule matches, each with the position of the first matching rule.

        Args:
            paths: The paths of the resources.
            device_id: The id of the device. The ``endpoint-name`` of a rule matches the id or the name.
            endpoint_name: Its endpoint name.
            endpoint_type: Its endpoint type.
        """
        named = self._names.matching(device_id) | self._names.matching(endpoint_name)
        of_device = named & self._types.matching(endpoint_type)
        if not of_device:
            return {}
        found = {}
        for path in paths:
            matching = of_device & self._rules_of_path(path)
            if matching:
                # The lowest bit is the first rule.
                found[path] = (matching & -matching).bit_length() - 1
        return found


class _Patterns:
    """An index of the rules with a pattern that matches a string, as the bits of an integer.

    Args:
        patterns: The position of each rule with its patterns; ``None`` where the rule matches every text.
    """

    def __init__(self, patterns: Iterable[tuple[int, Sequence[str] | None]]) -> None:
        self._every = 0
        self._exact: dict[str, int] = {}
        self._prefixes: dict[str, int] = {}
        for position, texts in patterns:
            rule = 1 << position
            if texts is None:
                self._every |= rule
                continue
            for text in texts:
                of_kind, key = (self._prefixes, text[:-1]) if text.endswith("*") else (self._exact, text)
                present = of_kind.get(key)
                # Most patterns are of one rule, and then share its integer.
                of_kind[key] = rule if present is None else present | rule
        self._lengths = sorted({len(prefix) for prefix in self._prefixes})

    def matching(self, text: str) -> int:
        found = self._every | self._exact.get(text, 0)
        for length in self._lengths:
            if length > len(text):
                break
            found |= self._prefixes.get(text[:length], 0)
        return found


def _listed(pattern: str | None) -> tuple[str] | None:
    return None if pattern is None else (pattern,)
