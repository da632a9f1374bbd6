"""Two classes never share a name, so that a search for one finds it."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_no_two_classes_share_a_name():
    places = defaultdict(list)
    for path in sorted(path for package in ("mirror_sdk", "mirror_server") for path in (ROOT / package).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if text.startswith("# Made from "):  # a synchronous twin has private classes of the same names
            continue
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
