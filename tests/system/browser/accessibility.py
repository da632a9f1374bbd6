"""Accessibility checks of a page with axe-core: WCAG 2.2 A and AA, and best practices."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page

_HERE = Path(__file__).parent
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_RUN = """async ([within, tags]) => (await axe.run(within, { runOnly: { type: "tag", values: tags } })).violations
    .flatMap(({ id, help, nodes }) => nodes.map(({ html }) => `${id}: ${help}: ${html.slice(0, 120)}`))"""


def violations(page: Page, within: str = "html") -> list[str]:
    """Return the rules that the elements of a CSS selector violate, each with the element."""
    page.evaluate(_axe())
    found: list[str] = page.evaluate(_RUN, [within, _TAGS])
    return found


@cache
def _axe() -> str:
    """Return the script of axe-core, which npm installs."""
    with TemporaryDirectory() as folder:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(_HERE / "axe" / name, folder)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        return Path(folder, "node_modules", "axe-core", "axe.min.js").read_text(encoding="utf-8")
