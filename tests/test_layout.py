"""The picture of the layout in CONTRIBUTING shows every package, each with the first sentence of its docstring.

``python tests/test_layout.py`` redraws it.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / ".github" / "CONTRIBUTING.md"
PAGES = sorted((ROOT / ".github").rglob("*.md"))
PICTURE = re.compile(r"(?<=```text\n)mirror_sdk/\n.*?(?=```)", re.DOTALL)
WITHOUT_MODULES = {
    "mirror_sdk/manual": "The manual of the client: a file for each topic of mirror help.",
    "mirror_server/manual": "The manual of the server: a file for each topic of mirror-server help.",
    "mirror_sdk/wire/examples": "An example of each object of the interface, to test the models and the description.",
    "mirror_sdk/widgets/ui": "The components of the widgets and of the server's page, and their styles.",
    "mirror_sdk/widgets/ui/src": "The sources of ui.js in TypeScript: .ci/make_ui.py builds it.",
    "mirror_sdk/widgets/ui/src/page": "The server's web page: its requests, its store and its components.",
    "mirror_server/extensions/page/files": "The HTML of the page, and the script that starts it.",
}
MIGRATIONS = "How a database gets from one version of its schema to the next."
WIDTH = 25


def packages_of(package: str) -> Iterator[Path]:
    """Yield the package, its top modules and all folders, in the order of the picture."""
    top = ROOT / package
    yield top
    modules = [path for path in top.glob("*.py") if path.name != "__init__.py"]
    folders = [path for path in top.rglob("*") if path.is_dir() and any(path.glob("*.*"))]
    topics = set(top.glob("extensions/*/manual"))
    listed = (
        path
        for path in folders
        if path.name != "__pycache__" and "migrations" not in path.parent.parts and path not in topics
    )
    installed = {"built", "node_modules"}
    found = [*modules, *(path for path in listed if installed.isdisjoint(path.parts))]
    # A folder comes before the modules next to it, followed by its content.
    yield from sorted(found, key=lambda path: (path in modules, path.relative_to(top).parts))


def sentence(path: Path) -> str:
    """Return the first sentence of the docstring of a package or module."""
    module = path / "__init__.py" if path.is_dir() else path
    if not module.exists():
        return MIGRATIONS if path.name == "migrations" else WITHOUT_MODULES.get(path.relative_to(ROOT).as_posix(), "")
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    first = re.split(r"(?<=\.) (?=[A-Z`])", docstring.partition("\n")[0])[0]
    return re.sub(r"(?::[a-z]+:)?`+([^`]+)`+", r"\1", first)


def line(path: Path) -> str:
    """Return a line of the picture."""
    parts = path.relative_to(ROOT).parts
    name = f"{'  ' * (len(parts) - 1)}{parts[-1]}{'/' if path.is_dir() else ''}"
    return name if len(parts) == 1 else f"{name:<{WIDTH}} {sentence(path)}"


def picture() -> str:
    """Draw the current layout."""
    packages = ("mirror_sdk", "mirror_server")
    return "\n".join("\n".join([*map(line, packages_of(package)), ""]) for package in packages)


@pytest.mark.parametrize("package", ["mirror_sdk", "mirror_server"])
def test_each_package_states_its_purpose_in_a_sentence(package: str) -> None:
    _, *inside = packages_of(package)
    assert len(inside) > 20
    assert [path for path in inside if len(sentence(path).split()) < 3] == []


def test_the_picture_of_the_layout_is_current() -> None:
    (drawn,) = PICTURE.findall(PAGE.read_text(encoding="utf-8"))
    assert drawn == picture(), "redraw it with: python tests/test_layout.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_named_in_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`(?:python )?((?:tests|mirror_sdk|mirror_server|\.ci)/[\w./-]*\w|[\w/]+/\w+\.py)`", text)
    above = [ROOT, *(ROOT / package for package in ("mirror_sdk", "mirror_server", "mirror_sdk/wire"))]
    assert [name for name in named if not any((folder / name).exists() for folder in above)] == []
    files = {path.name for top in ("mirror_sdk", "mirror_server", "tests") for path in (ROOT / top).rglob("*.*")}
    assert set(re.findall(r"`(\w+\.(?:py|sql))`", text)) <= files
    assert [link for link in re.findall(r"\]\(([^)]+)\)", text) if not (page.parent / link).exists()] == []


def imports_of(tree: ast.AST) -> Iterator[str]:
    """Yield the imports of a module, also those in functions, but not those for types only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)
            yield str(node.module)
        yield from imports_of(node)


def test_the_files_of_the_core_are_read_in_the_order_of_their_imports() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## Read the core")[2].partition("10. ")[0].partition("\n1. ")[2]
    files = re.findall(r"`([\w/]+\.py)`", text)
    core = ROOT / "mirror_server"
    found = [path.relative_to(core) for path in core.rglob("*.py")]
    there = [path.as_posix() for path in found if path.parts[0] != "extensions" and path.name != "__init__.py"]
    assert sorted(files) == sorted([*there, "cli/__init__.py"])
    names = [f"mirror_server/{file}".removesuffix(".py").removesuffix("/__init__").replace("/", ".") for file in files]
    for number, file in enumerate(files):
        needed = set(imports_of(ast.parse((core / file).read_text(encoding="utf-8"))))
        assert needed.isdisjoint(names[number + 1 :]), file


def test_decisions_are_numbered_from_one_and_have_all_sections() -> None:
    records = [page for page in PAGES if page.parent.name == "decisions"]
    for number, page in enumerate(records, 1):
        text = page.read_text(encoding="utf-8")
        assert page.name.startswith(f"{number:04}-")
        assert text.startswith(f"# {number}. ")
        assert all(f"**{part}.**" in text for part in ("Context", "Decision", "Consequences"))
        # A limit on lines would punish paragraphs and lists. 3000 characters are 25 full lines.
        assert len(text) <= 3000


if __name__ == "__main__":
    PAGE.write_text(PICTURE.sub(lambda _: picture(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
