"""A notebook in JupyterLab, in a real browser."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import cache

import httpx
import nbformat
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect
from process_lab import ADDRESS, START_SECONDS, Lab
from process_server import PATIENCE_SECONDS, wait_until

RAN = re.compile(r"\[\d+\]:")

OPEN = "async (path) => { await jupyterapp.commands.execute('docmanager:open', { path, factory: 'Notebook' }); }"


class Notebook:
    """A notebook with runnable cells, and the errors on its page.

    Args:
        lab: The JupyterLab that opens it.
        browser: The browser that displays it.
        cells: Its code, where the first cells prepare the others; or the name of an existing file.
        in_lab: Whether it is opened in JupyterLab; otherwise in Notebook 7, which the same server has.
        own_page: Whether JupyterLab is loaded again for it, which takes as long as the rest of most tests.
    """

    numbers = itertools.count()

    def __init__(
        self, lab: Lab, browser: Browser, cells: Sequence[str] | str, *, in_lab: bool = True, own_page: bool = False
    ) -> None:
        address, _, token = lab.find(ADDRESS).groups()
        name = cells.removesuffix(".ipynb") if isinstance(cells, str) else self._write(lab, cells)
        headers = {"Authorization": f"token {token}"}
        self.name = name
        self._cells = cells
        self._others: list[Page] = []
        self._http = httpx.Client(base_url=address, headers=headers, trust_env=False, timeout=PATIENCE_SECONDS)
        wait_until(lambda: _responds(self._http), "JupyterLab to respond", START_SECONDS)
        page_path = f"lab/workspaces/{name}/tree" if in_lab else "notebooks"
        self.url = f"{address}/{page_path}/{name}.ipynb?token={token}&reset"
        self._is_shared = in_lab and not own_page
        self.page: Page = shared_page(lab, browser) if self._is_shared else _new_page(lab, browser)
        self.wrong: list[str] = []
        self._listeners = {
            "pageerror": lambda error: self.wrong.append(str(error)),
            "dialog": lambda dialog: self.wrong.append(f"a dialog: {dialog.message}"),
        }
        for event, listener in self._listeners.items():
            self.page.on(event, listener)
        if self._is_shared:
            self.page.evaluate(OPEN, f"{name}.ipynb")
        else:
            self.page.goto(self.url)
        expect(self.page.locator(".jp-Notebook")).to_be_visible(timeout=START_SECONDS * 1000)
        # Cells that are run before the kernel exists are not run, and JupyterLab shows a dialog instead.
        if in_lab:
            expect(self.page.get_by_text("Python 3 (ipykernel) | Idle")).to_be_visible(timeout=START_SECONDS * 1000)
        else:
            wait_until(lambda: _has_idle_kernel(self._http, name), "a kernel", START_SECONDS)
            expect(self.page.locator('[data-status="idle"]').first).to_be_visible(timeout=START_SECONDS * 1000)
        if self._is_shared:
            # Stored outputs of the file must not count as new ones.
            self.page.evaluate("jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
        self.choose("Run", "Run All Cells")

    def other_page(self) -> Page:
        """Open the notebook, which is saved, in Notebook 7, with the widgets of the same kernel.

        JupyterLab's language server reports an error for a file that a second JupyterLab opens.
        """
        file = f"/api/contents/{self.name}.ipynb"
        # If Jupyter reads a file while it is being written, it considers the file damaged and restores the previous
        # one.
        with self.page.expect_response(lambda one: one.request.method == "PUT" and file in one.url) as saved:
            self.choose("File", "Save Notebook")
        assert saved.value.ok
        assert "widget-view" in self._http.get(file).text
        page = self.page.context.new_page()
        self._others.append(page)
        page.goto(self.url.replace(f"lab/workspaces/{self.name}/tree", "notebooks"))
        expect(page.locator(".jp-Notebook")).to_be_visible(timeout=START_SECONDS * 1000)
        expect(page.locator('[data-status="idle"]').first).to_be_visible(timeout=START_SECONDS * 1000)
        return page

    def close(self) -> None:
        """Close the notebook and end the kernel. Otherwise its widgets would continue to poll during the next test."""
        for page in self._others:
            page.close()
        if self._is_shared and not self.page.is_closed():
            self.page.evaluate("jupyterapp.shell.currentWidget.dispose()")
            for event, listener in self._listeners.items():
                self.page.remove_listener(event, listener)
        else:
            self.page.close()
        self.end_kernel()
        self._http.close()

    def end_kernel(self) -> None:
        """End the kernel; the page stays open."""
        for session in self._http.get("/api/sessions").json():
            if self.name in session["path"]:
                self._http.delete(f"/api/sessions/{session['id']}")

    def _write(self, lab: Lab, cells: Sequence[str]) -> str:
        name = f"notebook-{next(self.numbers)}"
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, lab.folder / "mirror-notebooks" / f"{name}.ipynb")
        return name

    def wait_for_the_cells(self) -> None:
        """Wait until all cells have run. While they run, JupyterLab takes the focus."""
        prompts = self.page.locator(".jp-CodeCell .jp-InputPrompt")
        expect(prompts).to_have_text([RAN] * len(self._cells), timeout=START_SECONDS * 1000)

    def choose(self, *entries: str) -> None:
        """Choose an entry of a menu."""
        self.page.locator(".lm-MenuBar-item", has_text=entries[0]).first.click()
        for entry in entries[1:]:
            self.page.locator(".lm-Menu-itemLabel", has_text=re.compile(f"^{entry}$")).first.click()

    def run(self, cell: int) -> None:
        """Run a cell."""
        self.cell(cell).locator(".jp-InputArea-editor").click()
        self.page.keyboard.press("Control+Enter")

    def cell(self, number: int) -> Locator:
        """Return a cell, counted from 0."""
        return self.page.locator(".jp-CodeCell").nth(number)

    def widget(self, cell: int = 1) -> Locator:
        """Return the widget that a cell displays."""
        return self.cell(cell).locator(".mirror-widget").first

    @property
    def focused(self) -> str:
        """Return the label or the text of the focused element."""
        script = (
            "() => { const element = document.activeElement; const labels = element.labels || [];"
            " return labels.length ? labels[0].textContent : element.ariaLabel || element.textContent; }"
        )
        return str(self.page.evaluate(script)).strip()

    def tab_to(self, name: str) -> None:
        """Press Tab until an element with this in its name has the focus."""
        for _ in range(40):
            self.keys("Tab")
            # Not the complete cell, which contains the text somewhere.
            if name in self.focused and len(self.focused) < 100:
                return
        raise AssertionError(f"no Tab leads to {name!r}")

    def keys(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            self.page.keyboard.press(key)


_shared_pages: dict[Lab, Page] = {}


def shared_page(lab: Lab, browser: Browser) -> Page:
    """Yield a page of JupyterLab on which one notebook after the other is opened."""
    page = _shared_pages.get(lab)
    if page is None or page.is_closed():
        page = _shared_pages[lab] = _new_page(lab, browser)
        address, _, token = lab.find(ADDRESS).groups()
        page.goto(f"{address}/lab/workspaces/shared?token={token}&reset")
        expect(page.locator(".jp-Launcher")).to_be_visible(timeout=START_SECONDS * 1000)
    return page


def _new_page(lab: Lab, browser: Browser) -> Page:
    page = _context(lab, browser).new_page()
    page.set_viewport_size({"width": 1400, "height": 1100})
    return page


@cache
def _context(_lab: Lab, browser: Browser) -> BrowserContext:
    """Return one context for all pages of a lab, so that JupyterLab's files are read and compiled once."""
    made = browser.new_context()
    made.set_default_timeout(PATIENCE_SECONDS * 1000)
    return made


def _has_idle_kernel(http: httpx.Client, name: str) -> bool:
    sessions = http.get("/api/sessions").json()
    return any(name in one["path"] and one["kernel"]["execution_state"] == "idle" for one in sessions)


def _responds(http: httpx.Client) -> bool:
    try:
        return http.get("/api/status").status_code == 200
    except httpx.TransportError:
        return False
