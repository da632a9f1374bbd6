"""Checks the language of names and texts by the word lists of english.toml.

python .ci/check_english.py          checks everything
python .ci/check_english.py PATH...  checks these files and folders

A name may not contain a word, and a text may not contain a phrase, for which the lists have a better one. Sentences of
texts that users read end after at most 30 words. A docstring begins with a verb or a noun, and two classes never share
a name. Of scripts and style sheets only the comments are checked. Exceptions are in english.toml, each with its reason.
"""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
RULES = tomllib.loads((ROOT / ".ci/english.toml").read_text(encoding="utf-8"))
MAX_WORDS = 30
GENERATED = "# Made from "
"""The first words of a generated module. Its source is checked instead."""

_PHRASES = [(re.compile(rf"\b(?:{phrase})", re.IGNORECASE), better) for phrase, better in RULES["phrases"].items()]
_WORDS = {word: better for words, better in RULES["words"].items() for word in words.split()}
_NAME_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_OPENING = re.compile(r"(?:What|Who|Whoever|Whatever|Where|Whose|When|Which|It|They|Those|These|That|How|Why|Such)\b")
_COMMENT = re.compile(r"/\*(?s:.*?)\*/|(?<!:)//.*")
_WITH_COMMENTS = {".ts", ".tsx", ".css", ".js", ".mjs"}
_DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

_CODE = re.compile(
    r"^```(?s:.*?)^```$"  # a fenced block of Markdown
    r"|::\n\n(?: +.*\n?|\n)+"  # a literal block
    r"|^ *>>> .*\n?(?:(?! *$).*\n?)*"  # an example with its output
    r"|^ *\|.*$|^ *=[= ]+$|^ *\S+ {2,}\S.*$"  # a row of a table
    r"|^\s*\x08\n(?: *\S.*\n?)*"  # lines that click does not wrap
    r"|<!--(?s:.*?)-->",
    re.MULTILINE,
)
_LITERAL = re.compile(r"(`+)[^`]+?\1|\]\([^)]*\)|https?://\S+")
_PARAGRAPH = re.compile(r"\n\s*\n|\n(?= *(?:[-*]|\d+\.) )|\n(?= *[\w`*, ]+:\s)|\n(?=#)")
_SENTENCE = re.compile(r"(?<=[.!?:])[)\"'*`]*\s+")


@dataclass(frozen=True)
class Text:
    """A text of a file.

    Attributes:
        line: The line on which it begins.
        text: Its words, without quotes and comment signs.
        is_public: Users read it.
    """

    line: int
    text: str
    is_public: bool


def check(path: Path) -> Iterator[str]:
    """Yield a message for each word, phrase, opening and sentence of a file that breaks a rule."""
    name = path.relative_to(ROOT).as_posix()
    source = path.read_text(encoding="utf-8")
    if source.startswith(GENERATED):
        return
    if path.suffix == ".py":
        tree = ast.parse(source)
        yield from _check_names(name, tree)
        yield from _check_openings(name, tree)
        texts = list(_texts_of(name, source, tree))
    elif path.suffix == ".ipynb":
        cells = json.loads(source)["cells"]
        texts = [Text(1, "".join(cell["source"]), True) for cell in cells if cell["cell_type"] == "markdown"]
    elif path.suffix in _WITH_COMMENTS:
        comments = _COMMENT.finditer(source)
        texts = [Text(1 + source.count("\n", 0, found.start()), found.group(), False) for found in comments]
    else:
        texts = [Text(1, source, True)]
    allowed = RULES["allowed"]["phrases"]
    for text in texts:
        prose = _LITERAL.sub(_blank("x"), _CODE.sub(_blank(""), text.text))
        for phrase, better in _PHRASES:
            for found in phrase.finditer(prose):
                line = text.line + prose.count("\n", 0, found.start())
                around = " ".join(prose[max(0, found.start() - 60) : found.end() + 60].split())
                if not any(exception in around for exception in allowed):
                    yield f"{name}:{line}: {found.group()!r}: {better}"
        if text.is_public:
            yield from _check_lengths(name, text.line, prose)


def _blank(word: str) -> Callable[[re.Match[str]], str]:
    """Return a replacement that keeps line numbers."""
    return lambda found: word + "\n" * found.group().count("\n")


def _check_lengths(name: str, first: int, prose: str) -> Iterator[str]:
    at = 0
    for paragraph in _PARAGRAPH.split(prose):
        for sentence in _SENTENCE.split(paragraph):
            count = len(re.findall(r"[\w'-]*\w[\w'-]*", sentence))
            if count > MAX_WORDS:
                at = max(prose.find(sentence, at), at)
                line = first + prose.count("\n", 0, at)
                yield f"{name}:{line}: {count} words, at most {MAX_WORDS}: {' '.join(sentence.split())[:60]}..."


def _check_names(file: str, tree: ast.Module) -> Iterator[str]:
    allowed = RULES["allowed"]["names"]
    names = {(1, part) for part in Path(file).with_suffix("").parts}
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add((node.lineno, node.name))
            case ast.arg():
                names.add((node.lineno, node.arg))
            case ast.Name(ctx=ast.Store()):
                names.add((node.lineno, node.id))
            case ast.Attribute(ctx=ast.Store()):
                names.add((node.lineno, node.attr))
    for line, name in sorted(names):
        if name in allowed:
            continue
        for word in {word.lower() for word in _NAME_WORD.findall(name)} & _WORDS.keys():
            yield f"{file}:{line}: name {name}: {word!r}: {_WORDS[word]}"


def _check_openings(file: str, tree: ast.Module) -> Iterator[str]:
    """Check docstrings, also those of modules and attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))) if opening := _OPENING.match(text.lstrip()):
                yield f"{file}:{node.lineno}: docstring begins with {opening.group()!r}, not a verb or a noun"


def _texts_of(file: str, source: str, tree: ast.Module) -> Iterator[Text]:
    """Yield docstrings, also those of attributes, comments, and strings of several words."""
    is_product = file.startswith("mirror_")
    owners = {
        node.body[0].lineno: getattr(node, "name", Path(file).stem)
        for node in ast.walk(tree)
        if isinstance(node, _DEFINITIONS) and ast.get_docstring(node)
    }
    docstrings = set()
    for node in ast.walk(tree):
        match node:
            # A statement is visited before its value.
            case ast.Expr(value=ast.Constant(value=str(text)) as value):
                docstrings.add(value)
                yield Text(node.lineno, text, is_product and not owners.get(node.lineno, "").startswith("_"))
            case ast.Constant(value=str(text)) if node not in docstrings and len(text.split()) > 2:
                yield Text(node.lineno, text, False)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(token.start[0], token.string.lstrip("# "), False)


def check_classes(files: list[Path]) -> Iterator[str]:
    """Yield a message for each name that two classes of the product share, so that a search for one finds it."""
    found = defaultdict(list)
    for path in files:
        name = path.relative_to(ROOT).as_posix()
        source = path.read_text(encoding="utf-8")
        if path.suffix == ".py" and name.startswith("mirror_") and not source.startswith(GENERATED):
            for node in ast.parse(source).body:
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(f"{name}:{node.lineno}")
    for name, lines in found.items():
        if len(lines) > 1 and name not in RULES["allowed"]["classes"]:
            yield f"{lines[-1]}: class {name} is also in {', '.join(lines[:-1])}; give one of them another name"


def checked_files(names: Iterable[str]) -> list[Path]:
    """Return the files that exist, since git still lists files that were deleted and not committed."""
    paths = [ROOT / name for name in sorted(set(names) - RULES["files"]["unchecked"].keys())]
    return [path for path in paths if path.suffix in {".py", ".md", ".ipynb", *_WITH_COMMENTS} and path.exists()]


def main() -> None:
    """Print what breaks a rule and exit with 1, or exit with 0."""
    patterns = sys.argv[1:] or RULES["files"]["checked"]
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    files = checked_files(listed.stdout.split("\0"))
    problems = [problem for path in files for problem in check(path)] + list(check_classes(files))
    print("\n".join(problems))
    if problems:
        sys.exit(f"{len(problems)} findings. The lists and their exceptions are in .ci/english.toml")


if __name__ == "__main__":
    main()
