"""The index of presubscription rules matches the same rules as a linear search. Source: wire.md 3."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mirror_sdk.wire.presubscription_rules import PresubscriptionRules
from mirror_server.core.rules import RuleIndex

# Few characters, so that many texts are prefixes of others.
_NAMES = st.text("ab", min_size=1, max_size=4)
_PATHS = st.text("12/", max_size=6).map(lambda text: f"/{text}")
_NAME_PATTERNS = st.one_of(st.none(), _NAMES, _NAMES.map(lambda text: f"{text}*"), st.just("*"))
_PATH_PATTERNS = st.lists(st.one_of(_PATHS, _PATHS.map(lambda text: f"{text}*"), st.just("*")), min_size=1, max_size=3)
_RULES = st.fixed_dictionaries(
    {},
    optional={
        "endpoint-name": _NAME_PATTERNS,
        "endpoint-type": _NAME_PATTERNS,
        "resource-path": st.one_of(st.none(), _PATH_PATTERNS),
    },
)


def first_by_linear_search(rules: list[dict[str, Any]], path: str, **device: str) -> int | None:
    parsed = PresubscriptionRules.model_validate(rules).root
    matching = (rule.matches_device(**device) and rule.matches_path(path) for rule in parsed)
    return next((position for position, matches in enumerate(matching) if matches), None)


@given(rules=st.lists(_RULES, max_size=8), paths=st.lists(_PATHS, max_size=4), device=st.tuples(_NAMES, _NAMES, _NAMES))
def test_index_finds_the_first_rule_that_matches(
    rules: list[dict[str, Any]], paths: list[str], device: tuple[str, str, str]
) -> None:
    names = dict(zip(("device_id", "endpoint_name", "endpoint_type"), device, strict=True))
    found = RuleIndex(rules).positions(paths, **names)
    assert found == {
        path: first for path in paths if (first := first_by_linear_search(rules, path, **names)) is not None
    }


def test_index_supports_the_maximum_number_of_rules() -> None:
    rules: list[dict[str, Any]] = [{"endpoint-name": f"n{number}"} for number in range(1024)]
    device = {"device_id": "0" * 32, "endpoint_type": ""}
    assert RuleIndex(rules).positions(["/1/0/1"], endpoint_name="n1023", **device) == {"/1/0/1": 1023}
    assert RuleIndex(rules).positions(["/1/0/1"], endpoint_name="n1024", **device) == {}
