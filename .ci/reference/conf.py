"""Configuration of Sphinx: ``python -m sphinx -W --keep-going -E .ci/reference FOLDER`` builds manual and reference.

The reference consists of the docstrings. The topics of the manual are copied to ``manual`` next to this file. A public
name without a docstring or a page, or a link without a target, is an error.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from shutil import rmtree

from docutils.nodes import Element
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

import mirror_sdk
import mirror_sdk.cli.help_command
import mirror_server.cli

project = "device-state-mirror"
author = "The device-state-mirror developers"
_PROJECT = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
version = release = tomllib.loads(_PROJECT)["project"]["version"]
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_parser"]

nitpicky = True
napoleon_custom_sections = ["Source"]
napoleon_use_ivar = True
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
add_module_names = False
maximum_signature_line_length = 110
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"device-state-mirror {release}"
html_copy_source = False
html_show_sphinx = False

PUBLIC = [
    "mirror_sdk",
    "mirror_sdk.cassette",
    "mirror_sdk.dask",
    "mirror_sdk.errors",
    "mirror_sdk.example_app",
    "mirror_sdk.frames",
    "mirror_sdk.object_definitions",
    "mirror_sdk.plan",
    "mirror_sdk.privacy",
    "mirror_sdk.recording",
    "mirror_sdk.snapshot",
    "mirror_sdk.testing",
    "mirror_sdk.values",
    "mirror_sdk.webhook",
    "mirror_sdk.widgets",
    "mirror_sdk.wire",
    "mirror_server",
    "mirror_server.config",
    "mirror_server.extensions.lwm2m",
    "mirror_server.extensions.postgresql",
    "mirror_server.extensions.wsgi",
    "mirror_server.notifications",
]
# Sphinx resolves annotations in place, after which pydantic cannot build further classes. So all modules are imported
# first.
_MODULES = [import_module(name) for name in PUBLIC]

# Inherited members are documented only if the base is neither a public class nor from another package.
_CLASSES = {
    found
    for module in _MODULES
    for name in getattr(module, "__all__", [])
    if isinstance(found := getattr(module, name), type)
}
_ELSEWHERE = {
    base.__name__
    for found in _CLASSES
    for base in found.__mro__[1:]
    if base in _CLASSES or not base.__module__.startswith("mirror_")
}
autodoc_default_options = {
    "members": True,
    "member-order": "bysource",
    "inherited-members": ", ".join({"JsonForm", "WireModel", *_ELSEWHERE}),
    "exclude-members": "model_config, model_construct",
}

_MANUAL = Path(__file__).parent / "manual"


def _copy_topics(command: str, topics: Mapping[str, Path]) -> None:
    """Copy the topics of a command, with links for the names of other topics and of the package."""
    folder = _MANUAL / command
    folder.mkdir(parents=True)
    for topic, file in topics.items():
        text = re.sub(r"`((mirror|mirror-server) help ([a-z-]+))`", r"[`\1`](../\2/\3.md)", _linked(file))
        (folder / f"{topic}.md").write_text(text, encoding="utf-8")


def _linked(file: Path) -> str:
    names = "|".join(map(re.escape, mirror_sdk.__all__))
    return re.sub(rf"`({names})`", r"{any}`\1 <mirror_sdk.\1>`", file.read_text(encoding="utf-8"))


rmtree(_MANUAL, ignore_errors=True)
_copy_topics("mirror", mirror_sdk.cli.help_command.TOPICS)
_copy_topics("mirror-server", mirror_server.cli.TOPICS)

_log = logging.getLogger(__name__)


def setup(app: Sphinx) -> None:
    """Connect the checks to the events of Sphinx."""
    app.connect("autodoc-process-docstring", _name_twin)
    app.connect("missing-reference", _leave_types_of_others)
    app.connect("env-check-consistency", _check_complete)


def _name_twin(_app: Sphinx, kind_of_object: str, name: str, _obj: object, _options: object, lines: list[str]) -> None:
    """Link a member of one client to the same member of the other client."""
    if not any(lines) and kind_of_object != "attribute":
        _log.warning("%s has no docstring", name)
    owner, _, member = name.removeprefix("mirror_sdk.").partition(".")
    twin = owner.removeprefix("Async") if owner.startswith("Async") else f"Async{owner}"
    if twin in mirror_sdk.__all__ and hasattr(getattr(mirror_sdk, twin), member or "__doc__"):
        kind = "synchronous" if owner.startswith("Async") else "asynchronous"
        role = "attr" if kind_of_object in {"attribute", "property"} else "meth" if member else "class"
        lines += ["", f"*The {kind} one:* :{role}:`~mirror_sdk.{twin}{'.' * bool(member)}{member}`", ""]


def _leave_types_of_others(_app: Sphinx, _env: BuildEnvironment, node: pending_xref, text: Element) -> Element | None:
    """Show a type of another package as text. An unresolved link in a docstring remains an error."""
    return text if "refwarn" not in node else None


def _check_complete(_app: Sphinx, env: BuildEnvironment) -> None:
    """Warn of a public name without a page, or with a second page in addition to that of ``mirror_sdk``."""
    described = env.domains.python_domain.objects
    for module in _MODULES:
        for name in getattr(module, "__all__", []):
            path = f"{module.__name__}.{name}"
            is_elsewhere = module is not mirror_sdk and name in mirror_sdk.__all__
            if (path in described and not described[path].aliased) == is_elsewhere:
                _log.warning("%s is on %s", path, "two pages" if is_elsewhere else "no page")
