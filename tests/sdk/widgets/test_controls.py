"""What all widgets are made of, without a page: signs, progress, counts that filter."""

from usual import NASTY

from mirror_sdk.frames import DriftKind
from mirror_sdk.widgets.markup import legend, problem
from mirror_sdk.widgets.models.status import DRIFT_STATUS, Status


def test_each_status_has_its_own_text():
    assert len({one.text for one in Status}) == len(Status)
    assert set(DRIFT_STATUS) == set(DriftKind)


def test_legend_has_sign_word_and_meaning():
    told = legend([Status.ASLEEP])
    assert "☾ Asleep" in told
    assert Status.ASLEEP.meaning in told
    assert "mirror-tone-note" in told
    assert "mirror-tone-bad" not in told


def test_problem_is_escaped_and_read_by_screen_readers():
    assert problem("") == ""
    assert "<img" not in problem(NASTY)
    assert 'role="status"' in problem(NASTY)
