"""Statuses are the same in Python and on the page."""

import re
from pathlib import Path

from mirror_sdk.frames import DriftKind
from mirror_sdk.widgets import widget
from mirror_sdk.widgets.models.status import DRIFT_STATUS, Status

LISTED = re.compile(
    r'^  \["(?P<sign>.)", "(?P<word>[^"]+)", "(?P<tone>\w+)", "\w+", "(?P<meaning>[^"]+)"\],$', re.MULTILINE
)


def test_each_status_has_its_own_text():
    assert len({one.text for one in Status}) == len(Status)
    assert set(DRIFT_STATUS) == set(DriftKind)


def test_page_shows_the_same_statuses():
    source = (Path(widget.__file__).parent / "ui" / "src" / "status.tsx").read_text(encoding="utf-8")
    assert LISTED.findall(source) == [(one.sign, one.word, one.tone.value, one.meaning) for one in Status]
