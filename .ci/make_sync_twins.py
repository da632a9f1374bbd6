"""Generates the synchronous modules from their asynchronous twins, by the rules of ``.ci/sync_twins.toml``.

python .ci/make_sync_twins.py          writes the synchronous modules
python .ci/make_sync_twins.py --check  names the modules that are out of date, and the fix
"""

from __future__ import annotations

import difflib
import re
import subprocess
import sys
import textwrap
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import libcst as cst

ROOT = Path(__file__).parent.parent
COMMAND = "python .ci/make_sync_twins.py"
LINE_LENGTH = 120
ONLY_HERE = "# asynchronous alone"
"""The beginning of a comment after a statement that the synchronous twin does not have."""
_ONLY_THERE = re.compile(r"^( *)# synchronous alone: ", re.MULTILINE)
"""The beginning of a line that holds a statement for the synchronous twin."""

_EXAMPLE = re.compile(r"^ *>>> .*(?:\n *\.\.\. ?.*)*", re.MULTILINE)
_ITEM = re.compile(r" *(?:[\w`*]+: [A-Z`]|- )")
"""The beginning of a paragraph without an empty line before it: an argument, an error, a list item."""


class TwinError(Exception):
    """A rule does not apply to its source."""


@dataclass(frozen=True)
class Twin:
    """A module that is written by hand, and the module that is generated from it.

    Attributes:
        source: The asynchronous module, relative to the root.
        target: The synchronous module.
        names: Names to replace in code, texts and examples.
        calls: Functions that run another function without blocking the event loop. The call of that function remains.
        arguments: Functions whose call is replaced by its argument.
        contexts: Context managers that are removed, while their block remains.
        prose: Words of docstrings to replace, regardless of line breaks.
    """

    source: str
    target: str
    names: dict[str, str]
    calls: frozenset[str]
    arguments: frozenset[str] = frozenset()
    contexts: frozenset[str] = frozenset()
    prose: list[tuple[str, str]] = field(default_factory=list)


def read_twins(rules: str) -> list[Twin]:
    """Return the twins of a rules file."""
    table = tomllib.loads(rules)
    return [
        Twin(
            twin["source"],
            twin["target"],
            {**table["names"], **twin.get("names", {})},
            frozenset(table["calls"]),
            frozenset(table["arguments"]),
            frozenset(table["contexts"]),
            [(before, after) for before, after in twin.get("prose", [])],
        )
        for twin in table["twin"]
    ]


def synchronous(source: str, twin: Twin) -> str:
    """Return the synchronous module for an asynchronous one, formatted like all modules.

    Raises:
        TwinError: A rule for the twin's prose matches nothing.
    """
    header = f"# Made from {Path(twin.source).name} by .ci/make_sync_twins.py: a change belongs there, not here.\n"
    # Without "await", some imports, branches, loops and names of returned values are redundant.
    mending = ["check", "--fix-only", "--quiet", "--unsafe-fixes", "--select", "F401,I001,RET504,SIM108,UP028"]
    return _ruff(["format", "--quiet"], _ruff(mending, header + without_waiting(source, twin), twin), twin)


def without_waiting(source: str, twin: Twin) -> str:
    """Return synchronous code before formatting: imports may be redundant and lines may be too long.

    Raises:
        TwinError: A rule for the twin's prose matches nothing.
    """
    transformer = _Synchronous(twin)
    made = cst.parse_module(_ONLY_THERE.sub(r"\1", source)).visit(transformer).code
    for before, _ in twin.prose:
        if before not in transformer.said:
            raise TwinError(f"{twin.source} does not say {before!r}, for which there is a rule in sync_twins.toml")
    return made


def attributes(twins: list[Twin]) -> str:
    """Return a ``.gitattributes`` that marks the twins as generated, so that a review shows their sources."""
    return "".join(f"{target} linguist-generated\n" for target in sorted(twin.target for twin in twins))


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write or check all twins and return the exit status."""
    differing = 0
    twins = read_twins((root / ".ci/sync_twins.toml").read_text(encoding="utf-8"))
    sources = {twin.target: twin.source for twin in twins} | {".gitattributes": ".ci/sync_twins.toml"}
    texts = {twin.target: synchronous((root / twin.source).read_text(encoding="utf-8"), twin) for twin in twins}
    texts[".gitattributes"] = attributes(twins)
    for name, made in texts.items():
        target = root / name
        found = target.read_text(encoding="utf-8") if target.exists() else ""
        if made == found:
            continue
        if "--check" not in arguments:
            target.write_text(made, encoding="utf-8")
            continue
        differing += 1
        print(f"{name} is out of date; change {sources[name]} instead and run {COMMAND}")
        lines = difflib.unified_diff(found.splitlines(), made.splitlines(), "found", "made", lineterm="", n=1)
        print("\n".join(lines))
    return 1 if differing else 0


class _Synchronous(cst.CSTTransformer):
    """Removes ``async`` and ``await`` and replaces names and words."""

    def __init__(self, twin: Twin) -> None:
        super().__init__()
        self._twin = twin
        self._names = re.compile(r"\b(?:" + "|".join(map(re.escape, twin.names)) + r")\b")
        self.said: set[str] = set()

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef | cst.RemovalSentinel:
        body = original_node.body
        comment = body.header if isinstance(body, cst.IndentedBlock) else cst.TrailingWhitespace()
        return cst.RemoveFromParent() if _is_only_here(comment) else updated_node.with_changes(asynchronous=None)

    def leave_With(
        self, original_node: cst.With, updated_node: cst.With
    ) -> cst.With | cst.FlattenSentinel[cst.BaseStatement] | cst.RemovalSentinel:
        if _is_only_here(cst.ensure_type(original_node.body, cst.IndentedBlock).header):
            return cst.RemoveFromParent()
        left = [item for item in updated_node.items if _called(item.item) not in self._twin.contexts]
        if left:
            left[-1] = left[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            return updated_node.with_changes(asynchronous=None, items=left)
        first, *others = cst.ensure_type(updated_node.body, cst.IndentedBlock).body
        lines = [*updated_node.leading_lines, *getattr(first, "leading_lines", ())]
        return cst.FlattenSentinel([first.with_changes(leading_lines=lines), *others])

    def leave_For(self, original_node: cst.For, updated_node: cst.For) -> cst.For:
        return updated_node.with_changes(asynchronous=None)

    def leave_CompFor(self, original_node: cst.CompFor, updated_node: cst.CompFor) -> cst.CompFor:
        return updated_node.with_changes(asynchronous=None)

    def leave_Await(self, original_node: cst.Await, updated_node: cst.Await) -> cst.BaseExpression:
        # An awaited expression binds as closely as a name, so the parentheses are redundant.
        return updated_node.expression

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> cst.BaseExpression:
        inner = updated_node.slice[0].slice
        if isinstance(updated_node.value, cst.Name) and updated_node.value.value == "Awaitable":
            return cst.ensure_type(inner, cst.Index).value
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        called = _called(updated_node)
        if called in self._twin.arguments:
            return updated_node.args[0].value
        if called not in self._twin.calls:
            return updated_node
        work, *arguments = updated_node.args
        if isinstance(work.value, cst.Lambda):
            return work.value.body
        return updated_node.with_changes(func=work.value, args=arguments)

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        return cst.RemoveFromParent() if _is_only_here(original_node.trailing_whitespace) else updated_node

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> cst.If | cst.RemovalSentinel:
        header = cst.ensure_type(original_node.body, cst.IndentedBlock).header
        return cst.RemoveFromParent() if _is_only_here(header) else updated_node

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        return updated_node.with_changes(value=self._twin.names.get(updated_node.value, updated_node.value))

    def leave_Comment(self, original_node: cst.Comment, updated_node: cst.Comment) -> cst.Comment:
        return updated_node.with_changes(value=self._reworded(updated_node.value))

    def leave_FormattedStringText(
        self, original_node: cst.FormattedStringText, updated_node: cst.FormattedStringText
    ) -> cst.FormattedStringText:
        return updated_node.with_changes(value=self._renamed(updated_node.value))

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.SimpleString:
        text = _EXAMPLE.sub(self._example, updated_node.value)
        return updated_node.with_changes(value=self._renamed(self._reworded(text)))

    def _renamed(self, text: str) -> str:
        return self._names.sub(lambda found: self._twin.names[found[0]], text)

    def _example(self, found: re.Match[str]) -> str:
        """Return a statement of a docstring's example, made synchronous."""
        first, *others = found[0].split("\n")
        indent = first[: first.index(">")]
        source = "\n".join([first.strip()[4:], *(line.strip()[4:] for line in others)])
        made = cst.parse_module(source).visit(self).code.split("\n")
        return "\n".join(f"{indent}{'...' if number else '>>>'} {line}".rstrip() for number, line in enumerate(made))

    def _reworded(self, text: str) -> str:
        for before, after in self._twin.prose:
            pattern = r"\s+".join(map(re.escape, before.split()))
            found = re.search(pattern, text)
            if found is not None:
                self.said.add(before)
                text = _refilled(text[: found.start()] + after + text[found.end() :], found.start(), len(after))
        return text


def _called(expression: cst.BaseExpression) -> str | None:
    """Return the name of the called function, or ``None`` for anything else."""
    return cst.Module([]).code_for_node(expression.func) if isinstance(expression, cst.Call) else None


def _is_only_here(line_end: cst.TrailingWhitespace) -> bool:
    return line_end.comment is not None and line_end.comment.value.startswith(ONLY_HERE)


def _refilled(text: str, begin: int, length: int) -> str:
    """Return the text with the changed paragraph wrapped again, or without it if it is empty."""
    lines = text.split("\n")
    first, last = text.count("\n", 0, begin), text.count("\n", 0, begin + length)
    if first == 0:
        return text
    while _belong_together(lines[first - 1], lines[first]):
        first -= 1
    while last + 1 < len(lines) and _belong_together(lines[last], lines[last + 1]):
        last += 1
    words = " ".join(lines[first : last + 1]).split()
    if not words:
        before = lines[:first] if lines[first - 1].strip() else lines[: first - 1]
        return "\n".join([*before, *lines[last + 1 :]])
    begins, goes_on = _indent(lines[first]), _indent(lines[first]) + "    " * bool(_ITEM.match(lines[first]))
    filled = textwrap.wrap(
        " ".join(words),
        LINE_LENGTH,
        initial_indent=begins,
        subsequent_indent=goes_on,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join([*lines[:first], *filled, *lines[last + 1 :]])


def _belong_together(line: str, following: str) -> bool:
    """Return whether two lines of a docstring belong to one paragraph."""
    if not line.strip() or not following.strip() or _ITEM.match(following) or following.strip() == '"""':
        return False
    return bool(_ITEM.match(line)) or _indent(line) == _indent(following)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _ruff(arguments: list[str], source: str, twin: Twin) -> str:
    command = [sys.executable, "-m", "ruff", *arguments, "--no-cache", "--stdin-filename", twin.target, "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True, cwd=ROOT).stdout


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except TwinError as problem:
        sys.exit(str(problem))
