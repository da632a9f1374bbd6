"""The chart of the widgets in a real browser, without a notebook and without a server."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route

import mirror_sdk.widgets

pytestmark = [pytest.mark.process, pytest.mark.browser]

UI = Path(mirror_sdk.widgets.__file__).parent / "ui" / "ui.js"
ADDRESS = "http://widgets.test/"
BEGIN_MS = datetime(2026, 1, 5, 8, 4, 34, tzinfo=UTC).timestamp() * 1000
SECOND, MINUTE, DAY = 1000, 60_000, 86_400_000


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
