"""Resource paths and the patterns of presubscription rules."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_sdk.wire.paths import PathParts, check_pattern, matches, parse_path
from mirror_sdk.wire.subscriptions import PresubscriptionRule

plain_text = st.text().filter(lambda text: "*" not in text)


def _write(parts: PathParts | list[int]) -> str:
    return "".join(f"/{number}" for number in parts if number is not None)


@given(st.lists(st.integers(0, 65535), min_size=1, max_size=4), st.data())
def test_path_is_one_to_four_numbers_up_to_65535(parts: list[int], data: st.DataObject) -> None:
    assert list(parse_path(_write(parts))) == parts + [None] * (4 - len(parts))
    parts[data.draw(st.integers(0, len(parts) - 1))] = data.draw(st.integers(min_value=65536))
    with pytest.raises(ValueError, match="is not a resource path"):
        parse_path(_write(parts))


@given(st.text("/0123456789*?\n", max_size=12))
def test_each_path_is_written_in_one_way_only(text: str) -> None:
    try:
        parts = parse_path(text)
    except ValueError:
        return
    assert _write(parts) == text


def test_invalid_path_is_rejected_with_an_example() -> None:
    texts = ["", "/", "3303/0/5700", "/3303/0/5700/", "//3303/0/5700", "/3303/0/5700\n", "/3303/00/5700", "/03303"]
    texts += ["/-1", "/1/2/3/4/5", "/3303/0/*", "/3303/0/5700?pmin=5", "/٣", "/3303/0/temperature"]
    for text in texts:
        with pytest.raises(ValueError, match="write it like /3303/0/5700"):
            parse_path(text)


@given(plain_text, st.text(), st.text(min_size=1))
def test_pattern_matches_itself_or_with_a_star_its_prefix(beginning: str, rest: str, any_text: str) -> None:
    for text in (beginning, beginning + rest, any_text):
        assert matches(beginning, text) == (text == beginning)
        assert matches(f"{beginning}*", text) == (text[: len(beginning)] == beginning)
    for pattern in (beginning, f"{beginning}*"):
        assert check_pattern(pattern) == pattern
    with pytest.raises(ValueError, match="only at the end"):
        check_pattern(f"{beginning}*{any_text}")


_PIECES = st.sampled_from(["/", "3", "33", "03", "0", "5700"])
_TEXTS = st.lists(_PIECES, max_size=6).map(lambda pieces: "/" + "".join(pieces))


@settings(max_examples=50)
@given(patterns=st.lists(st.builds(str.__add__, _TEXTS, st.sampled_from(["", "*"])), min_size=1), path=_TEXTS)
def test_rule_matches_a_path_that_one_of_its_patterns_matches(patterns: list[str], path: str) -> None:
    rule = PresubscriptionRule.model_validate({"resource-path": patterns})
    assert rule.matches_path(path) is any(matches(pattern, path) for pattern in patterns)
    assert rule.to_wire() == {"resource-path": patterns}
