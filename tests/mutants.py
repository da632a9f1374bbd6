"""Small defects of the code (mutants), and which of them the in-process tests notice.

python tests/mutants.py draw drawn.csv                     draws 400 mutants; for the same code always the same ones
python tests/mutants.py cover build/lines                  runs all tests and records which test runs which lines
python tests/mutants.py run drawn.csv now.csv build/lines  runs the tests of each mutant that now.csv lacks

``cover`` and ``run`` continue where they were interrupted. ``run`` ends with the counts and with the mutants that were
killed according to the first file and survive now: pass the outcome of an earlier run there to compare with it. Delete
the recorded lines after a change of code or tests. A mutant is found by its function and statement, not by its line.

No file is changed: a mutant is compiled in place of its module, in a process that was forked for it. So tests that
start processes do not count, nor do those that need a browser or PostgreSQL. ``MUTANTS_LOG`` names a file for the
output of the tests.

Outcomes: ``killed`` (a test failed), ``timed out``, ``survived`` (the chosen tests passed), ``not covered`` (no test
runs the statement), ``gone`` (the statement is no longer there).
"""

from __future__ import annotations

import ast
import csv
import gc
import json
import os
import random
import signal
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from copy import copy
from dataclasses import astuple, dataclass, replace
from functools import partial
from importlib import import_module
from importlib.machinery import SourceFileLoader
from itertools import accumulate
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = [
    *(f"mirror_server/{name}" for name in ("core", "service", "notifications", "store", "devices", "web")),
    *(f"mirror_sdk/{name}" for name in ("_service", "frames", "plan", "recording", "values")),
]
# Not run by in-process tests; synchronous twins are generated.
EXCLUDED = ("mirror_server/store/migrations/",)
KINDS = ("comparison", "constant", "branch", "return")
IGNORED_TESTS = ("tests/process", "tests/system")
TEST_FILES = "tests/**/test_*.py"
MARKERS = "not (process or notebook or browser or image)"
# Libraries that are imported once and not for each mutant; none of them imports the packages under test.
PRELOADED = (
    "aiocoap", "alembic.command", "click.testing", "coverage", "dask.dataframe", "flask", "httpx", "hypothesis",
    "IPython", "ipywidgets", "orjson", "pandas", "polars", "prometheus_client", "pyarrow.dataset", "pyarrow.parquet",
    "pydantic", "rich.table", "sqlalchemy", "uvicorn", "websockets", "websockets.sync.client",
)  # fmt: skip
PAIRS = [(ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn)]
COMPARISONS = {one: other for pair in PAIRS for one, other in (pair, pair[::-1])}
SEED = 1
COUNT = 400
FILES_AT_ONCE = 4
FIRST_TESTS = 8
MOST_TESTS = 300
MOST_SECONDS = 20.0
"""How long the tests of a mutant may take, by the durations that were recorded with their lines.

Of a statement that thousands of tests run this is a sample: raise it to run the tests of survivors again, whose rows
you delete.
"""
LIMIT_SECONDS = 60.0
"""How long a mutant may run."""
FORK = get_context("fork")


@dataclass(frozen=True)
class Mutant:
    """A small defect. The first six fields identify it; ``number`` counts equal ones in the same function."""

    file: str
    function: str
    kind: str
    original: str
    mutated: str
    number: str
    outcome: str = ""
    killed_by: str = ""
    covering: str = ""
    seconds: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        return astuple(self)[:6]


@dataclass(frozen=True)
class Place:
    """Where a mutant is: its file, the lines of its statement, and which bytes become which text."""

    file: str
    lines: range
    begin: int
    end: int
    text: str

    def source(self) -> bytes:
        """The file with the defect."""
        content = (ROOT / self.file).read_bytes()
        return content[: self.begin] + self.text.encode() + content[self.end :]


def header(statement: Any) -> str:
    """The statement as text, a compound one without its body."""
    if isinstance(getattr(statement, "body", None), list):
        statement = copy(statement)
        for name in {"orelse", "finalbody", "handlers", "cases"} & set(statement._fields):
            setattr(statement, name, [])
        statement.body = [ast.Pass()]
    return ast.unparse(statement).strip().removesuffix("pass").strip()


def new_constant(value: object) -> object:
    """Another constant; ``None`` where there is none worth a try: texts for people, None, bytes."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, str) and not any(letter.isspace() for letter in value):
        return f"{value}_mutated"
    return None


def new_return(value: ast.expr, annotation: str) -> ast.expr | None:
    """Another value of the annotated type, so that a test has to look at it."""
    more = ast.BinOp(value, ast.Add(), ast.Constant(1))
    others = {"bool": ast.UnaryOp(ast.Not(), value), "int": more, "float": more, "str": ast.Constant("mutated")}
    others |= {"list": ast.List([], ast.Load()), "dict": ast.Dict([], [])}
    other = others.get(annotation.partition("[")[0], ast.Constant(None))
    return None if ast.unparse(other) == ast.unparse(value) else other


def changes(node: ast.AST, returns: str) -> Iterator[tuple[str, str, Any]]:
    """Kinds of defects of a node, each with the field to set and its new value."""
    match node:
        case ast.Compare(ops=[operator]):
            yield "comparison", "ops", [COMPARISONS[type(operator)]()]
        case ast.Constant(value=value) if (other := new_constant(value)) is not None:
            yield "constant", "value", other
        case ast.If() | ast.While() | ast.IfExp():
            yield "branch", "test", ast.UnaryOp(ast.Not(), node.test)
            if isinstance(node, ast.If) and not node.orelse:
                yield "branch", "test", ast.BoolOp(ast.And(), [node.test, ast.Constant(False)])
        case ast.Return(value=ast.expr() as value) if (changed := new_return(value, returns)) is not None:
            yield "return", "value", changed


def find_all(file: str, source: str) -> Iterator[tuple[Mutant, Place]]:
    """Every mutant of a file."""
    begins = [0, *accumulate(len(line) for line in source.encode().splitlines(keepends=True))]
    counts: Counter[tuple[str, ...]] = Counter()

    def place(statement: Any, part: Any, text: str) -> Place:
        begin, end = (begins[line - 1] for line in (part.lineno, part.end_lineno))
        lines = range(getattr(statement, "lineno", part.lineno), part.end_lineno + 1)
        return Place(file, lines, begin + part.col_offset, end + part.end_col_offset, text)

    def walk(node: Any, names: tuple[str, ...], returns: str | None, statement: Any) -> Iterator[tuple[Mutant, Place]]:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            annotation = getattr(node, "returns", None)
            inside = returns if isinstance(node, ast.ClassDef) else ast.unparse(annotation) if annotation else ""
            for child in node.body:
                yield from walk(child, (*names, node.name), inside, child)
            return
        # A docstring, texts of which 3.11 does not know the position, and a type that is written as a text.
        match node:
            case ast.JoinedStr() | ast.Expr(value=ast.Constant()) | ast.Call(func=ast.Name(id="cast")):
                return
        if returns is not None:
            for kind, field, new in changes(node, returns):
                old, original = getattr(node, field), header(statement)
                setattr(node, field, new)
                is_whole = kind in {"comparison", "constant"}
                text, mutated = ast.unparse(node if is_whole else new), header(statement)
                setattr(node, field, old)
                key = (file, ".".join(names), kind, original, mutated)
                text = text if kind == "constant" else f"({text})"
                yield Mutant(*key, str(counts[key])), place(statement, node if is_whole else old, text)
                counts[key] += 1
        for name, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and name not in {"annotation", "format_spec"}:
                    is_statement = isinstance(child, (ast.stmt, ast.match_case, ast.ExceptHandler))
                    yield from walk(child, names, returns, child if is_statement else statement)

    yield from walk(ast.parse(source), (), None, None)


def source_files() -> list[Path]:
    """The files that mutants are made of."""
    rules = tomllib.loads((ROOT / ".ci" / "sync_twins.toml").read_text(encoding="utf-8"))
    generated = {twin["target"] for twin in rules["twin"]}
    found = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    names = {path: path.relative_to(ROOT).as_posix() for path in found}
    return [path for path in found if names[path] not in generated and not names[path].startswith(EXCLUDED)]


def all_mutants() -> dict[tuple[str, ...], Place]:
    """Every mutant of the code as it is."""
    texts = ((path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in source_files())
    return {mutant.key: place for file, text in texts for mutant, place in find_all(file, text)}


def find_again(wanted: Iterable[Mutant]) -> dict[tuple[str, ...], Place]:
    """Where each mutant is now: in its file, else in another one if there is exactly one like it."""
    found, elsewhere = all_mutants(), defaultdict(list)
    for key, place in found.items():
        elsewhere[key[1:]].append(place)
    moved = {mutant.key: elsewhere[mutant.key[1:]] for mutant in wanted if mutant.key not in found}
    return found | {key: places[0] for key, places in moved.items() if len(places) == 1}


def draw() -> list[Mutant]:
    """As many mutants of each kind, in random order."""
    chance, mutants = random.Random(SEED), [Mutant(*key) for key in all_mutants()]
    chosen = [chance.sample([one for one in mutants if one.kind == kind], COUNT // len(KINDS)) for kind in KINDS]
    return [mutant for turn in zip(*chosen, strict=True) for mutant in turn]


def read(path: Path) -> dict[tuple[str, ...], Mutant]:
    with path.open("a+", newline="", encoding="utf-8") as file:
        file.seek(0)
        return {mutant.key: mutant for mutant in (Mutant(*row) for row in csv.reader(file))}


def append(path: Path, mutants: Iterable[Mutant]) -> None:
    with path.open("a", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(map(astuple, mutants))


class Plugin:
    """Runs the chosen tests in their order, or all tests and records who runs which lines; records outcomes."""

    def __init__(self, chosen: Iterable[str] = (), coverage: Any = None) -> None:
        self.order, self.coverage = {test: number for number, test in enumerate(chosen)}, coverage
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.failed: list[str] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if not self.coverage:
            chosen = [item for item in items if item.nodeid in self.order]
            items[:] = sorted(chosen, key=lambda item: self.order[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        # Threads of a server in the process of the test record under the same context.
        if self.coverage:
            self.coverage.switch_context(nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        # Lines of a shared fixture belong to all tests of the file.
        if is_shared := self.coverage and fixturedef.scope != "function":
            self.coverage.switch_context(file_of(request.node.nodeid))
        try:
            return (yield)
        finally:
            if is_shared:
                self.coverage.switch_context(os.environ["PYTEST_CURRENT_TEST"].rpartition(" (")[0])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        if report.failed or (report.skipped and self.coverage):
            self.failed.append(report.nodeid)


def in_child(work: Callable[[], Any], limit: float = LIMIT_SECONDS) -> Any:
    """What a function returns in a forked process; ``None`` if it takes too long or ends the process."""
    receive, send = FORK.Pipe(duplex=False)

    def target() -> None:
        os.setsid()
        output = os.open(os.environ.get("MUTANTS_LOG", os.devnull), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        send.send(work())

    child = FORK.Process(target=target)
    child.start()
    assert child.pid
    send.close()
    begin = time.monotonic()
    while not receive.poll(0.1) and time.monotonic() - begin < limit + min(limit, waited_seconds(child.pid)):
        pass
    try:
        return receive.recv() if receive.poll() else None
    except EOFError:
        return None
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.join()


def waited_seconds(process: int) -> float:
    """How long its threads waited for a processor: others may use the machine."""
    files = Path(f"/proc/{process}/task").glob("*/schedstat")
    with suppress(OSError):
        return sum(int(file.read_text().split()[1]) for file in files) / 1e9
    return 0.0


def run_pytest(arguments: list[str], plugin: Plugin) -> int:
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    without = ("cacheprovider", "xdist", "nbval")
    loaded = "-Wignore::pytest.PytestAssertRewriteWarning"
    options = ["-q", "-m", MARKERS, loaded, "--hypothesis-seed=0", *(f"-pno:{name}" for name in without)]
    return int(pytest.main([*options, *(f"--ignore={folder}" for folder in IGNORED_TESTS), *arguments], [plugin]))


def record_lines(files: list[str]) -> dict[str, Any]:
    """Runs test files; which tests passed and how long they took, and which of them (or a file) ran which lines."""
    from coverage import Coverage  # noqa: PLC0415 - in the child

    names = [path.relative_to(ROOT).as_posix() for path in source_files()]
    coverage = Coverage(data_file=None, config_file=False, include=[str(ROOT / name) for name in names])
    plugin = Plugin(coverage=coverage)
    coverage.start()
    run_pytest(files, plugin)
    coverage.stop()
    data = coverage.get_data()
    tests = sorted(data.measured_contexts() - {""})
    number = {test: position for position, test in enumerate(tests)}
    lines: dict[str, dict[int, list[int]]] = {}
    for name in names:
        by_line = data.contexts_by_lineno(str(ROOT / name))
        lines[name] = {line: [number[test] for test in by if test] for line, by in by_line.items() if any(by)}
    return {"seconds": dict(plugin.seconds), "failed": plugin.failed, "tests": tests, "lines": lines}


def cover(folder: Path, files: list[str]) -> Iterator[str]:
    """Records the lines of test files, a few at a time, each time into a file of the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    done = {file for path in folder.glob("*.json") for file in json.loads(path.read_text(encoding="utf-8"))["files"]}
    left = [file for file in files if file not in done and not file.startswith(IGNORED_TESTS)]
    for some in (left[at : at + FILES_AT_ONCE] for at in range(0, len(left), FILES_AT_ONCE)):
        found = in_child(partial(record_lines, some), FILES_AT_ONCE * LIMIT_SECONDS)
        if found is not None:
            (folder / f"{some[0].replace('/', '.')}.json").write_text(json.dumps({"files": some} | found))
        yield f"{some[0]}: {'not recorded' if found is None else len(found['seconds'])}"


def file_of(test: str) -> str:
    return test.partition("::")[0]


def choose(recorded: list[dict[str, Any]], place: Place) -> tuple[list[str], int]:
    """As many tests of a statement as there is time for, and how many there are.

    Those come first that run much of its file in little time; after four of a file those of others have their turn.
    """
    found: list[tuple[float, float, str]] = []
    for run in recorded:
        by_line, tests = run["lines"].get(place.file, {}), run["tests"]
        counts = Counter(tests[number] for numbers in by_line.values() for number in numbers)
        contexts = {tests[number] for line in place.lines for number in by_line.get(str(line), [])}
        passed = {test: run["seconds"][test] for test in run["seconds"].keys() - set(run["failed"])}
        found += [
            (passed[test] / (counts[test] or 1), passed[test], test)
            for test in passed
            if contexts & {test, file_of(test)}
        ]
    ranks: Counter[str] = Counter()
    turns = []
    for position, (_, seconds, test) in enumerate(sorted(found)):
        turns.append((ranks[file_of(test)] // 4, position, seconds, test))
        ranks[file_of(test)] += 1
    turns.sort()
    totals = accumulate(seconds for _, _, seconds, _ in turns)
    chosen = [turn[-1] for turn, total in zip(turns, totals, strict=True) if total < MOST_SECONDS or turn is turns[0]]
    return chosen[:MOST_TESTS], len(turns)


def run_tests(place: Place, tests: list[str]) -> str:
    """Runs tests with a defect in place; the first test that failed, or nothing."""
    path, source, get_code = str(ROOT / place.file), place.source(), SourceFileLoader.get_code

    def get_changed(loader: SourceFileLoader, name: str) -> Any:
        return compile(source, path, "exec", dont_inherit=True) if loader.path == path else get_code(loader, name)

    SourceFileLoader.get_code = get_changed  # type: ignore[assignment, method-assign]
    files = list(dict.fromkeys(map(file_of, tests)))
    plugin = Plugin(sorted(tests, key=lambda test: files.index(file_of(test))))
    status = run_pytest(["-x", *files], plugin)
    is_bad = status not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}
    return (plugin.failed or [f"pytest ended with {status}" if is_bad else ""])[0]


def judge(mutant: Mutant, place: Place | None, recorded: list[dict[str, Any]]) -> Mutant:
    """The mutant with its outcome."""
    if place is None:
        return replace(mutant, outcome="gone")
    chosen, covering = choose(recorded, place)
    outcome, failed, begin = "survived" if chosen else "not covered", "", time.monotonic()
    # Most mutants are killed by the first tests, and to import the others takes longer than to run them.
    for part in filter(None, (chosen[:FIRST_TESTS], chosen[FIRST_TESTS:])):
        failed = in_child(partial(run_tests, place, part))
        if failed != "":
            outcome = "timed out" if failed is None else "killed"
            break
    took = f"{time.monotonic() - begin:.1f}"
    return replace(mutant, outcome=outcome, killed_by=failed or "", covering=str(covering), seconds=took)


def run(before: Path, after: Path, folder: Path) -> Iterator[str]:
    """Runs the tests of each mutant that has no outcome yet, and writes it down."""
    mutants, done = read(before), read(after)
    found = find_again(mutants.values())
    recorded = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))]
    gc.freeze()
    for key in [key for key in mutants if key not in done]:
        done[key] = judge(Mutant(*key), found.get(key), recorded)
        append(after, [done[key]])
        yield f"{done[key].outcome}: {', '.join(key)}"
    yield str(Counter(mutant.outcome for mutant in done.values()))
    killed = {"killed", "timed out"}
    for key, mutant in mutants.items():
        if mutant.outcome in killed and done[key].outcome not in killed:
            yield f"no longer killed: {done[key].outcome}: {', '.join(key)}"


def main(arguments: list[str]) -> None:
    """Runs a command."""
    steps: Iterator[str] = iter(())
    match arguments:
        case ["draw", drawn]:
            append(Path(drawn), draw())
        case ["cover", folder]:
            steps = cover(Path(folder), sorted(file.relative_to(ROOT).as_posix() for file in ROOT.glob(TEST_FILES)))
        case ["run", before, after, folder]:
            steps = run(Path(before), Path(after), Path(folder))
        case _:
            sys.exit(__doc__)
    for name in PRELOADED:
        import_module(name)
    for step in steps:
        print(step, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
