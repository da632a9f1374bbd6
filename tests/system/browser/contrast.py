"""Contrast of texts and symbols, by the colors that the browser computed (WCAG 2, level AA)."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Locator
from process_server import wait_for

_TOO_LITTLE = Path(__file__).with_name("too_little_contrast.js").read_text()


def expect_enough_contrast(*elements: Locator) -> None:
    """Check the contrast of all these elements, once the page has all its colors: a theme is applied in several steps.

    Texts need 4.5 : 1, large ones and shapes 3 : 1.
    """
    wait_for([], lambda: [text for one in elements for text in _too_little_contrast(one)])


def _too_little_contrast(part: Locator) -> list[str]:
    found = part.evaluate(_TOO_LITTLE)
    assert found["seen"], "nothing was looked at"
    wrong: list[str] = found["wrong"]
    return wrong
