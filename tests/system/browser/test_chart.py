"""The chart of the widgets in a real browser, without a notebook and without a server."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

import mirror_sdk.widgets

pytestmark = [pytest.mark.process, pytest.mark.browser]

UI = Path(mirror_sdk.widgets.__file__).parent / "ui" / "ui.js"
ADDRESS = "http://widgets.test/"
BEGIN_MS = datetime(2026, 1, 5, 8, 4, 34, tzinfo=UTC).timestamp() * 1000
SECOND, MINUTE, DAY = 1000, 60_000, 86_400_000
HOUR = 60 * MINUTE

SHOW = """async ([line, isStepped, begin, end, conditions]) => {
    const lines = [["a", "a line", 0, isStepped]];
    const panel = { key: "panel", title: "Temperature", unit: "°C", thresholds: [], lines };
    const published = { panels: { kind: "rows", name: "panels", version: 0, all: true, rows: [panel] } };
    const buffers = line.map((numbers) => new DataView(Float64Array.from(numbers, (one) => one ?? NaN).buffer));
    published.conditions = { kind: "rows", name: "conditions", version: 0, all: true, rows: conditions };
    published.lines = { kind: "series", name: "lines", version: 0, all: true, lines: [{ key: "a" }], buffers };
    const model = {
        _component: "watcher",
        _state: { notices: [], devices: "", paths: "", counts: "", empty: "", length: null, fixed: [begin, end],
            range: [begin, end], selected: null, drawn: ["a"], recording: "", saved: "" },
        _published: published,
    };
    const widget = (await import("./ui.js")).default();
    window.sent = [];
    const view = { get: (name) => model[name], on() {}, off() {}, send: (message) => sent.push(message) };
    widget.initialize({ model: view });
    widget.render({ model: view, el: document.body });
}"""
ROWS = """(shares) => {
    const canvas = document.querySelector("canvas");
    const { offsetLeft, offsetWidth } = document.querySelector(".u-over");
    const { backgroundColor } = getComputedStyle(document.querySelector(".mirror-swatch"));
    const color = backgroundColor.match(/[0-9]+/g).map(Number);
    return shares.map((share) => {
        const x = Math.floor((offsetLeft + share * offsetWidth) * devicePixelRatio);
        const { data } = canvas.getContext("2d").getImageData(x, 0, 1, canvas.height);
        const rows = Array.from({ length: canvas.height }, (_, row) => row);
        return rows.filter((row) => color.every((part, index) => Math.abs(part - data[4 * row + index]) < 60));
    });
}"""
"""The rows of pixels that have the color of the line, at shares of the width of the plot."""
SHADES = """(shares) => {
    const canvas = document.querySelector("canvas");
    const { offsetLeft, offsetTop, offsetWidth, offsetHeight } = document.querySelector(".u-over");
    return shares.map((share) => {
        const [x, y, height] = [offsetLeft + share * offsetWidth, offsetTop + 2, offsetHeight / 2];
        const { data } = canvas.getContext("2d").getImageData(
            x * devicePixelRatio, y * devicePixelRatio, 1, height * devicePixelRatio);
        const opacities = Array.from({ length: data.length / 4 }, (_, row) => data[4 * row + 3]).sort((a, b) => a - b);
        return [0.5, 0.9].map((quantile) => opacities[Math.floor(quantile * opacities.length)]);
    });
}"""
"""The median and the 90 % quantile of the opacity in the upper half of the plot, at shares of the width of the plot."""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page that can import ``./ui.js``."""
    opened = browser.new_page()

    def respond(route: Route) -> None:
        if route.request.url.endswith("ui.js"):
            route.fulfill(path=UI, content_type="text/javascript")
        else:
            route.fulfill(body="<!doctype html><title>Widgets</title>", content_type="text/html")

    opened.route(f"{ADDRESS}**", respond)
    opened.goto(ADDRESS)
    yield opened
    opened.close()


def labels_of(page: Page, *ranges: tuple[float, float]) -> list[str]:
    script = """async (ranges) => {
        const { comparable: { labelOf } } = await import("./ui.js");
        return ranges.map(([begin, end]) => labelOf({ kind: "fixed", begin, end }, "UTC"));
    }"""
    return [label.replace("\N{EN DASH}", "to") for label in page.evaluate(script, ranges)]


def show(
    page: Page,
    points: Sequence[tuple[float, float | None]],
    *,
    is_stepped: bool = False,
    conditions: Sequence[dict[str, object]] = (),
) -> None:
    """Show a line in the plot of an hour. Times are shares of the hour; a missing value interrupts the line."""
    line = [[BEGIN_MS + share * HOUR for share, _ in points], [value for _, value in points]]
    page.evaluate(SHOW, [line, is_stepped, BEGIN_MS, BEGIN_MS + HOUR, conditions])
    expect(page.locator(".u-over")).to_be_visible()


def rows_at(page: Page, *shares: float) -> list[list[int]]:
    found: list[list[int]] = page.evaluate(ROWS, shares)
    return found


def test_peaks_and_gaps_of_a_line_with_more_points_than_pixels_are_visible(page: Page) -> None:
    points: list[tuple[float, float | None]] = [(number / 9000, 20 + number % 2) for number in range(9000)]
    points[4500] = (0.5, 90)
    points[2000:3000] = [(2000 / 9000, None)]
    show(page, points)
    before, in_gap, at_peak, after = rows_at(page, 0.1, 0.28, 0.5, 0.9)
    assert in_gap == []
    assert (min(before), max(before)) == (min(after), max(after))
    assert min(at_peak) < min(before) - 50
    assert max(at_peak) == max(before)
    # The pixels of a bar are connected.
    assert at_peak == list(range(min(at_peak), max(at_peak) + 1))


@pytest.mark.parametrize("count", [1, 2000])
def test_values_of_a_set_point_last_until_the_next_one(page: Page, count: int) -> None:
    many = [(0.2 + number / 10_000 / count, 10.0) for number in range(count)]
    show(page, [*many, (0.8, 30), (0.9, 30)], is_stepped=True)
    begin, middle, end, after = (sum(rows) / len(rows) for rows in rows_at(page, 0.25, 0.5, 0.75, 0.85))
    assert begin == middle == end > after + 50
    over = page.locator(".u-over").bounding_box()
    assert over is not None
    page.mouse.move(over["x"] + over["width"] / 2, over["y"] + 10)
    expect(page.locator(".mirror-tooltip")).to_contain_text("a line10 °C")


@pytest.mark.parametrize("count", [1, 2000])
def test_line_of_a_measurement_is_straight_between_two_values(page: Page, count: int) -> None:
    many = [(0.2 + number / 10_000 / count, 10.0) for number in range(count)]
    show(page, [*many, (0.8, 30)])
    begin, middle, end = (sum(rows) / len(rows) for rows in rows_at(page, 0.3, 0.5, 0.7))
    assert begin > middle > end
    assert middle == pytest.approx((begin + end) / 2, abs=1)


def test_condition_shades_its_spans_and_hatches_unknown_ones(page: Page) -> None:
    condition = {
        "key": "0 a",
        "condition": "/3303/0/5700 > 5",
        "name": "sensor-1",
        "keys": ["a"],
        "spans": [
            [BEGIN_MS + begin * HOUR, BEGIN_MS + end * HOUR, is_known]
            for begin, end, is_known in ((0.21, 0.4, True), (0.4, 0.6, False), (0.6, 0.7, True))
        ],
    }
    other = condition | {"key": "0 b", "keys": ["b"], "spans": [[BEGIN_MS, BEGIN_MS + HOUR, True]]}
    # The peak before the spans leaves the upper half of the plot to them.
    show(page, [(0, 10), (0.01, 100), (0.02, 10), (1, 10)], conditions=[condition, other])
    before, known, unknown, again, after = page.evaluate(SHADES, [0.17, 0.317, 0.517, 0.65, 0.87])
    assert before == after == [0, 0]
    assert known == again == [known[0], known[0]]
    # The grid covers fewer pixels than a tenth, and the hatching more.
    assert 0 < unknown[0] < known[0] < unknown[1]
    cell = page.locator(".mirror-legend-table td").last
    expect(cell).to_have_text("/3303/0/5700 > 5: 17 min 24 s")
    over = page.locator(".u-over").bounding_box()
    assert over is not None
    page.mouse.move(over["x"] + over["width"] / 2, over["y"] + 10)
    expect(page.locator(".mirror-tooltip .mirror-tone-warn")).to_have_text("sensor-1: /3303/0/5700 > 5 (unknown)")
    page.mouse.move(over["x"] + over["width"] * 0.3, over["y"] + 10)
    expect(page.locator(".mirror-tooltip .mirror-tone-warn")).to_have_text("sensor-1: /3303/0/5700 > 5")


def test_zoom_sends_integer_milliseconds(page: Page) -> None:
    # Python confirms whole milliseconds: the label would change if the browser sent others.
    show(page, [(0, 10), (1, 20)])
    over = page.locator(".u-over").bounding_box()
    assert over is not None
    page.mouse.move(over["x"] + 100, over["y"] + 50)
    page.mouse.down()
    page.mouse.move(over["x"] + 201, over["y"] + 50, steps=3)
    page.mouse.up()
    page.wait_for_function("sent.length")
    [message] = page.evaluate("sent.filter(({ intent }) => intent === 'stay')")
    begin, end = message["args"]
    assert BEGIN_MS < begin < end < BEGIN_MS + HOUR
    assert (begin, end) == (int(begin), int(end))


def test_zoom_out_and_moves_end_at_years_that_python_has(page: Page) -> None:
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    show(page, [(0, 10), (1, 20)])
    button = page.get_by_role("button", name="Zoom out")
    for _ in range(40):
        button.click()
    page.locator(".mirror-plots").press("-")
    expect(page.locator(".mirror-range")).to_contain_text("0001-01-02 00:00 \N{EN DASH} 9999-12-31 00:00")
    page.locator(".mirror-plots").press("+")
    for _ in range(10):
        page.get_by_role("button", name="Earlier").click()
    expect(page.locator(".mirror-range")).to_contain_text("0001-01-02 00:00 \N{EN DASH} 5000-")
    ranges = [message["args"] for message in page.evaluate("sent.filter(({ intent }) => intent === 'stay')")]
    assert len(ranges) > 20
    for begin, end in ranges:
        assert datetime.fromtimestamp(begin / 1000, UTC) < datetime.fromtimestamp(end / 1000, UTC)
    assert errors == []


def test_typed_instants_are_read_as_written(page: Page) -> None:
    script = """async (texts) => {
        const { comparable: { parsedInstant } } = await import("./ui.js");
        return texts.map((text) => parsedInstant(text, "UTC"));
    }"""
    valid = ["0001-01-02", "0050-06-07T08:09:10", "1999-12-31 23:59:59.999", "9999-12-31 23:59"]
    expected = [datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000 for text in valid]
    assert page.evaluate(script, valid) == pytest.approx(expected)
    wrong = ["2026-01-01 00:75", "2026-01-01 00:00:60", "2026-01-01 24:00", "2026-02-30", "0000-01-01", "-001-01-01"]
    assert page.evaluate(script, wrong) == [None] * len(wrong)


@pytest.mark.parametrize("length", [10, 80.25, 999, SECOND, 1234.5, 9999, 10 * SECOND, 599 * SECOND, 10 * MINUTE, DAY])
def test_label_of_a_range_changes_with_each_move_and_zoom(page: Page, length: float) -> None:
    begin, end = BEGIN_MS + 0.25, BEGIN_MS + 0.25 + length
    moves = [(begin + share * length, end + share * length) for share in (-0.5, -0.25, 0, 0.25, 0.5)]
    zooms = [(begin - share * length, end + share * length) for share in (-0.25, 0, 0.5)]
    for ranges in (moves, zooms):
        labels = labels_of(page, *ranges)
        assert all(one != other for one, other in pairwise(labels)), labels


def test_label_of_a_range_has_only_the_digits_that_it_needs(page: Page) -> None:
    lengths = (20.5, 2 * SECOND, 2500, 30 * SECOND, 30 * MINUTE, DAY)
    assert labels_of(page, *((BEGIN_MS, BEGIN_MS + length) for length in lengths)) == [
        "2026-01-05 08:04:34.000 to 08:04:34.020",
        "2026-01-05 08:04:34 to 08:04:36",
        "2026-01-05 08:04:34.0 to 08:04:36.5",
        "2026-01-05 08:04:34 to 08:05:04",
        "2026-01-05 08:04 to 08:34",
        "2026-01-05 08:04 to 2026-01-06 08:04",
    ]


def test_negative_zero_is_displayed_without_a_sign(page: Page) -> None:
    script = """async (payloads) => {
        const { comparable: { axisNumber, number, quantity, valueText } } = await import("./ui.js");
        return [
            number(-0), quantity(-0, "°C"), axisNumber(-0, [-0.5, -0, 0.5]), axisNumber(-1e-9, [-0.5, -1e-9, 0.5]),
            ...payloads.map((payload) => valueText(payload, "", "°C")).map(({ text, unit }) => `${text} ${unit}`),
        ];
    }"""
    payloads = [base64.b64encode(text).decode() for text in (b"-0.0", b"-0", b"0.0", b"-0.04")]
    assert page.evaluate(script, payloads) == ["0", "0 °C", "0.0", "0.0", "0 °C", "0 °C", "0.0 °C", "-0.04 °C"]
