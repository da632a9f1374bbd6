"""Resource paths, the patterns of presubscription rules, and the routes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_sdk.wire import routes
from mirror_sdk.wire.paths import PathParts, check_pattern, matches, parse_path
from mirror_sdk.wire.subscriptions import PresubscriptionRule

numbers = st.lists(st.integers(0, 65535), min_size=1, max_size=4)
plain_text = st.text().filter(lambda text: "*" not in text)


def _write(parts: PathParts | list[int]) -> str:
    return "".join(f"/{number}" for number in parts if number is not None)


@given(numbers)
def test_a_path_of_one_to_four_numbers_is_split_into_them(parts: list[int]) -> None:
    assert list(parse_path(_write(parts))) == parts + [None] * (4 - len(parts))


@given(st.one_of(st.text(), st.from_regex(r"(?:/[0-9*?]{0,6}){0,5}\n?", fullmatch=True)))
def test_what_is_taken_as_a_path_is_written_in_one_way_only(text: str) -> None:
    try:
        parts = parse_path(text)
    except ValueError:
        return
    assert _write(parts) == text


@given(numbers, st.data())
def test_a_number_past_65535_makes_no_path(parts: list[int], data: st.DataObject) -> None:
    parts[data.draw(st.integers(0, len(parts) - 1))] = data.draw(st.integers(min_value=65536))
    with pytest.raises(ValueError, match="is not a resource path"):
        parse_path(_write(parts))


@pytest.mark.parametrize(
    "text",
    ["", "/", "3303/0/5700", "/3303/0/5700/", "//3303/0/5700", "/3303/0/5700\n", "/3303/00/5700", "/03303", "/-1",
     "/1/2/3/4/5", "/3303/0/*", "/3303/0/5700?pmin=5", "/٣", "/3303/0/temperature"],
)  # fmt: skip
def test_a_text_that_is_no_path_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write it like /3303/0/5700"):
        parse_path(text)


@given(plain_text, st.text())
def test_a_pattern_without_a_star_matches_itself_alone(pattern: str, text: str) -> None:
    assert matches(pattern, pattern)
    assert matches(pattern, text) == (pattern == text)


@given(plain_text, st.text())
def test_a_pattern_with_a_star_matches_what_begins_like_it(beginning: str, rest: str) -> None:
    assert matches(f"{beginning}*", beginning + rest)


@given(plain_text, st.text())
def test_a_pattern_with_a_star_matches_nothing_else(beginning: str, text: str) -> None:
    assert matches(f"{beginning}*", text) == (text[: len(beginning)] == beginning)


@given(plain_text, st.sampled_from(["", "*"]))
def test_a_pattern_may_end_in_a_star(beginning: str, star: str) -> None:
    assert check_pattern(beginning + star) == beginning + star


@given(st.text(), st.text(min_size=1))
def test_a_star_anywhere_else_is_refused(before: str, after: str) -> None:
    with pytest.raises(ValueError, match="only at the end"):
        check_pattern(f"{before}*{after}")


@pytest.mark.parametrize(
    ("route", "path"),
    [
        (routes.DEVICE_OBJECT, "/v3/devices/015f/echo"),
        (routes.DEVICES, "/v3/devices"),
        (routes.DEVICE, "/v3/devices/015f"),
        (routes.ENDPOINTS, "/v2/endpoints"),
        (routes.RESOURCE, "/v2/endpoints/015f/3303/0/5700"),
        (routes.LIMITS, "/v2/limits"),
        (routes.REST_VERSIONS, "/rest-versions"),
        (routes.ENDPOINT_RESOURCES, "/v2/endpoints/015f"),
        (routes.DEVICE_REQUESTS, "/v2/device-requests/015f"),
        (routes.PRESUBSCRIPTIONS, "/v2/subscriptions"),
        (routes.DEVICE_SUBSCRIPTIONS, "/v2/subscriptions/015f"),
        (routes.SUBSCRIPTION, "/v2/subscriptions/015f/3303/0/5700"),
        (routes.PULL, "/v2/notification/pull"),
        (routes.CHANNEL, "/v2/notification/channel"),
        (routes.BENCH_DEVICES, "/sim/v1/devices"),
        (routes.BENCH_DEVICE, "/sim/v1/devices/015f"),
        (routes.BENCH_RESOURCE, "/sim/v1/devices/015f/resources/3303/0/5700"),
        (routes.BENCH_REGISTRATION, "/sim/v1/devices/015f/registration"),
        (routes.BENCH_CLOCK, "/sim/v1/clock"),
    ],
)
def test_a_route_is_the_path_of_the_interface(route: str, path: str) -> None:
    assert route.format(device_id="015f", path="/3303/0/5700") == path


_PIECES = st.sampled_from(["/", "3", "33", "03", "0", "5700"])
_TEXTS = st.lists(_PIECES, max_size=6).map(lambda pieces: "/" + "".join(pieces))


@given(patterns=st.lists(st.builds(str.__add__, _TEXTS, st.sampled_from(["", "*"])), min_size=1), path=_TEXTS)
def test_a_rule_is_about_a_path_when_one_of_its_patterns_is(patterns: list[str], path: str) -> None:
    rule = PresubscriptionRule.model_validate({"resource-path": patterns})
    assert rule.matches_path(path) is any(matches(pattern, path) for pattern in patterns)
    assert rule == PresubscriptionRule.model_validate({"resource-path": patterns})
    assert rule.to_wire() == {"resource-path": patterns}
