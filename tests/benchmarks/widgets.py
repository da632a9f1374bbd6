"""The widgets in JupyterLab and the server's page in Chromium: a large fleet, many events, a large plot, repeated runs.

The browser, JupyterLab, the kernel and the mirror share all cores, so run this benchmark on an idle machine. Times are
taken in the page or in the kernel, without the remote control of the browser.

"Age" is that of the newest displayed event, at instants 20 ms apart. It includes the pause of 0.25 s between two
refreshes. "Cell" is a cell that assigns a number, from the page to the kernel and back, while 1,000 events a second
arrive. "Frames" are those that the page draws while 20 lines of 5,000 points grow five times a second. What repeated
runs of a cell keep excludes the first ten, which import and compile.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from children import HERE, IS_INSTALLED, ChildFailed, Missing
from machine import on_cores
from measuring import Figure, at_least, at_most, percentile
from run_settings import Run

NAME = "widgets"
_FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
_WARM_UP = 10
_LINES = 20
_EVENTS_PER_SECOND = 1000
_WIDGET, _ACTION = 1, 2
_RUN_CELL = """async ([number, code]) => {
    const { content } = jupyterapp.shell.currentWidget;
    content.activeCellIndex = number;
    content.activeCell.model.sharedModel.setSource(code);
    const began = performance.now();
    await jupyterapp.commands.execute("notebook:run-cell");
    return performance.now() - began;
}"""
_NEWEST = """async ([first, seconds]) => {
    const newest = () => {
        const cell = document.querySelector('.mirror-widget [row-index="0"] [col-id="number"]');
        return cell ? Number(cell.textContent.replaceAll(",", "")) : 0;
    };
    const pause = () => new Promise(resolve => setTimeout(resolve, 20));
    const latest = performance.now() + 120_000;
    while (newest() < first) {
        if (performance.now() > latest) throw new Error(`no event ${first} is displayed`);
        await pause();
    }
    const taken = [];
    const end = performance.now() + seconds * 1000;
    do {
        taken.push([Date.now() / 1000, newest()]);
        await pause();
    } while (performance.now() < end);
    return taken;
}"""
_FRAMES = """seconds => new Promise(resolve => {
    let frames = 0;
    const began = performance.now();
    const draw = () => {
        const passed = (performance.now() - began) / 1000;
        if (passed >= seconds) return resolve(frames / passed);
        frames += 1;
        requestAnimationFrame(draw);
    };
    requestAnimationFrame(draw);
})"""
_IS_DISPLAYED_JS = """const shown = async text => {
    const texts = () => [...document.querySelectorAll(".mirror-count")].map(one => one.textContent);
    const end = performance.now() + 120_000;
    while (!texts().some(one => one.includes(text))) {
        if (performance.now() > end) throw new Error(`not displayed: ${text}, but ${texts()}`);
        await new Promise(resolve => setTimeout(resolve, 5));
    }
    await new Promise(requestAnimationFrame);
};"""
_LIST = f"""async ([number, code, text]) => {{
    {_IS_DISPLAYED_JS}
    const {{ content }} = jupyterapp.shell.currentWidget;
    content.activeCellIndex = number;
    content.activeCell.model.sharedModel.setSource(code);
    const began = performance.now();
    const ran = jupyterapp.commands.execute("notebook:run-cell");
    await shown(text);
    const passed = performance.now() - began;
    await ran;
    return passed;
}}"""
_SEARCH = f"""async ([sought, text]) => {{
    {_IS_DISPLAYED_JS}
    const field = document.querySelector(".mirror-widget input[type=search], .page-devices input[type=search]");
    const began = performance.now();
    field.value = sought;
    field.dispatchEvent(new Event("input", {{ bubbles: true }}));
    await shown(text);
    return performance.now() - began;
}}"""

_PAGE = f"""async ([first, all]) => {{
    {_IS_DISPLAYED_JS}
    const times = [];
    for (const text of [first, all]) {{
        await shown(text);
        times.push(performance.now());
    }}
    return times;
}}"""
"""The times since the beginning of the navigation."""


def measure(run: Run) -> Iterator[Figure]:
    with _notebook(run) as (page, folder):
        yield from _fleet(run, page)
        yield from _page(run, page, folder)
        yield from _events(run, page, folder)
        yield _plot(run, page)
        yield from _runs(run, page, folder)


def _events(run: Run, page: Any, folder: Path) -> Iterator[Figure]:
    _run_cell(page, _WIDGET, "watcher = EventWatcher(client)\nwatcher")
    page.wait_for_selector(".mirror-widget [role=grid]")
    _run_cell(page, _ACTION, f"flood = Flood(watcher, rate={_EVENTS_PER_SECOND})")
    first = _value_of(page, folder, "flood.first")
    displayed = page.evaluate(_NEWEST, [first, run.scale.seconds * run.scale.rounds])
    cell_ms = [_run_cell(page, _ACTION, f"number = {number}") for number in range(4 * run.scale.rounds)]
    times = _value_of(page, folder, "flood.stop()")
    _run_cell(page, _ACTION, "watcher.close()")
    age_ms = [1000 * (at - times[number - first]) for at, number in displayed if 0 <= number - first < len(times)]
    rate = f"at {_EVENTS_PER_SECOND:,} events/s"
    yield Figure(NAME, f"age of the newest event, p50, {rate}", percentile(age_ms, 0.5), "ms", at_most(350))
    yield Figure(NAME, f"age of the newest event, p95, {rate}", percentile(age_ms, 0.95), "ms", samples={"": age_ms})
    yield Figure(NAME, f"cell, p50, {rate}", percentile(cell_ms, 0.5), "ms", at_most(300))
    yield Figure(NAME, f"cell, p95, {rate}", percentile(cell_ms, 0.95), "ms", samples={"": cell_ms})


def _plot(run: Run, page: Any) -> Figure:
    points = run.scale.points
    _run_cell(page, _WIDGET, f"watcher = EventWatcher(client, max_events={2 * _LINES * points})\nwatcher")
    page.wait_for_selector(".mirror-widget [role=grid]")
    _run_cell(
        page, _ACTION, f"fill(watcher, {_LINES}, {points})\nflood = Flood(watcher, rate={5 * _LINES}, lines={_LINES})"
    )
    frames = [page.evaluate(_FRAMES, run.scale.seconds) for _ in range(run.scale.rounds)]
    _run_cell(page, _ACTION, "flood.stop()\nwatcher.close()")
    what = f"frames, {_LINES} lines of {points:,} points"
    return Figure(NAME, what, statistics.median(frames), "1/s", at_least(30), samples={"": frames})


def _fleet(run: Run, page: Any) -> Iterator[Figure]:
    devices = run.scale.widget_devices
    list_ms, search_ms = [], []
    # The first run compiles.
    for _ in range(run.scale.rounds + 1):
        code = "fleet = FleetTable(client)\nfleet"
        list_ms.append(page.evaluate(_LIST, [_WIDGET, code, f"{devices:,} rows"]))
        search_ms.append(page.evaluate(_SEARCH, ["weather", f" of {devices:,} rows"]))
        _run_cell(page, _ACTION, "fleet.close()")
    for what, times_ms, goal in (("list", list_ms, 1000), ("search", search_ms, 200)):
        value = statistics.median(times_ms[1:])
        yield Figure(NAME, f"{what} {devices:,} devices", value, "ms", at_most(goal), samples={"": times_ms})


def _page(run: Run, page: Any, folder: Path) -> Iterator[Figure]:
    devices = run.scale.widget_devices
    address = _value_of(page, folder, "page_address()")
    first_ms, list_ms, search_ms = [], [], []
    # The first run compiles.
    for _ in range(run.scale.rounds + 1):
        opened = page.context.new_page()
        opened.goto(address, wait_until="commit")
        first, every = opened.evaluate(_PAGE, [" rows", f"{devices:,} rows"])
        first_ms.append(first)
        list_ms.append(every)
        search_ms.append(opened.evaluate(_SEARCH, ["weather", f" of {devices:,} rows"]))
        opened.close()
    for what, times_ms, goal in (("first", first_ms, 1000), ("list", list_ms, None), ("search", search_ms, 200)):
        value, limit = statistics.median(times_ms[1:]), None if goal is None else at_most(goal)
        yield Figure(NAME, f"page, {what} of {devices:,} devices", value, "ms", limit, samples={"": times_ms})


def _runs(run: Run, page: Any, folder: Path) -> Iterator[Figure]:
    def run_again(times: int) -> None:
        for _ in range(times):
            _run_cell(page, _WIDGET, "EventWatcher(client)")

    run_again(_WARM_UP)
    before = _value_of(page, folder, "usage()")
    run_again(run.scale.widget_runs)
    after = _value_of(page, folder, f"usage({before!r})")
    after_runs = f"after {run.scale.widget_runs} runs of a cell"
    for name in ("threads", "sockets"):
        yield Figure(NAME, f"more {name} {after_runs}", after[name] - before[name], "", at_most(0))
    sides = {"before": before["mib"], "after": after["mib"]}
    growth = after["mib"] / before["mib"]
    yield Figure(NAME, f"memory of the kernel {after_runs}", growth, "x", at_most(1.1), sides, "MiB")


def _run_cell(page: Any, number: int, code: str) -> float:
    """Run a cell with other code, and return its milliseconds."""
    milliseconds: float = page.evaluate(_RUN_CELL, [number, code])
    return milliseconds


def _value_of(page: Any, folder: Path, expression: str) -> Any:
    """Return the value of an expression in the kernel, as JSON."""
    file = folder / "value.json"
    _run_cell(page, _ACTION, f"write({str(file)!r}, {expression})")
    return json.loads(file.read_text(encoding="utf-8"))


@contextmanager
def _notebook(run: Run) -> Iterator[tuple[Any, Path]]:
    """Open a notebook with a cell for a widget and a cell for actions, and yield its page and a folder.

    Raises:
        ChildFailed: A cell failed.
        Missing: This is not a checkout, or there is no Chromium or playwright.
    """
    chromium = shutil.which("chromium")
    if IS_INSTALLED or chromium is None:
        raise Missing("widgets need a checkout with the extra test-system, and chromium")
    tests = HERE.parent
    sys.path += [str(tests), str(tests / "process"), str(tests / "system" / "browser")]
    try:
        playwright_api = import_module("playwright.sync_api")
        labs = import_module("process_lab")
        notebooks = import_module("process_notebook")
    except ModuleNotFoundError as error:
        raise Missing(f"widgets need {error.name}: pip install 'device-state-mirror[test-system]'") from error
    set_up = f"import sys\nsys.path += [{str(HERE)!r}]\nfrom widget_cells import *"
    with ExitStack() as stack:
        stack.enter_context(on_cores(run.cores.two | run.cores.client))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=run.folder)))
        lab = labs.Lab(folder, f"--devices={run.scale.widget_devices}")
        stack.callback(lab.close)
        lab.find(labs.ADDRESS)
        playwright = stack.enter_context(playwright_api.sync_playwright())
        browser = playwright.chromium.launch(executable_path=chromium, args=_FLAGS)
        stack.callback(browser.close)
        notebook = notebooks.Notebook(lab, browser, (set_up, "", ""), own_page=True)
        stack.callback(notebook.close)
        _run_cell(notebook.page, _ACTION, "is_ready = True")
        try:
            yield notebook.page, folder
        except (playwright_api.Error, FileNotFoundError) as error:
            raise ChildFailed(f"a cell of the notebook failed, or displayed something else: {error}") from error
