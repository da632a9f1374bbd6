"""What all widgets are made of, without a page: signs, progress, counts that filter."""

import pytest

from mirror_sdk.frames import DriftKind
from mirror_sdk.widgets.markup import legend, problem
from mirror_sdk.widgets.models.marks import OF_DRIFT, Mark, Tone
from mirror_sdk.widgets.parts import CountFilter, Progress, button
from mirror_sdk.widgets.theme import CSS

NASTY = "<img src=x onerror=alert(1)>"


def test_no_two_states_are_shown_alike():
    assert len({one.text for one in Mark}) == len(Mark)
    assert set(OF_DRIFT) == set(DriftKind)


@pytest.mark.parametrize("tone", list(Tone))
def test_each_tone_has_a_colour_light_and_dark(tone):
    assert CSS.count(f"--mirror-{tone}: #") >= 2
    assert f".mirror-tone-{tone} {{ color: var(--mirror-{tone}); }}" in CSS


def test_a_legend_tells_sign_word_and_meaning():
    told = legend([Mark.ASLEEP])
    assert "☾ asleep" in told
    assert Mark.ASLEEP.meaning in told
    assert "mirror-tone-note" in told
    assert "mirror-tone-bad" not in told


def test_a_problem_is_text_and_told_when_it_changes():
    assert problem("") == ""
    assert "<img" not in problem(NASTY)
    assert 'role="status"' in problem(NASTY)


def test_progress_is_a_bar_where_there_is_something_to_do():
    progress = Progress()
    progress.show("Looking …")
    assert progress.bar.layout.display == "none"
    progress.show("2 of 5", 2, 5)
    assert (progress.bar.layout.display, progress.bar.value, progress.bar.max) == ("flex", 2, 5)
    assert (progress.bar.bar_style, "2 of 5" in progress.text_view.value) == ("", True)
    progress.show("Done", 1, 1, Tone.GOOD)
    assert (progress.bar.value, progress.bar.max, progress.bar.bar_style) == (1, 1, "success")


def test_one_kind_of_button_is_primary():
    pressed = []
    plain, primary = button("One", "", pressed.append), button("Two", "", pressed.append, is_primary=True)
    assert (plain.button_style, primary.button_style) == ("", "primary")
    primary.click()
    assert pressed == [primary]


class Shown:
    """A widget that shows how its writes stand, and those alone that are wanted."""

    def __init__(self, **counts):
        self.counts = {Mark[name]: count for name, count in counts.items()}
        self.chosen = None
        self.is_rendering = False
        self.view = CountFilter("writes", [Mark.TO_WRITE, Mark.REFUSED, Mark.FAILED], self.choose, self.handler)
        self.render()

    def choose(self, mark):
        self.chosen = mark

    def handler(self, action):
        def handle(change):
            if not self.is_rendering:
                action(change)
                self.render()

        return handle

    def render(self):
        self.is_rendering = True
        self.view.show(self.counts, self.chosen)
        self.is_rendering = False

    @property
    def pressed(self):
        return [mark for mark, one in self.view.buttons.items() if one.value]


def test_counts_are_told_of_what_there_is_and_nothing_of_the_rest():
    shown = Shown(TO_WRITE=83, REFUSED=1417)
    texts = [one.description for one in shown.view.buttons.values() if one.layout.display != "none"]
    assert texts == ["1,500 writes", "→ 83 to write", "⊘ 1,417 refused"]


def test_a_count_shows_its_own_alone_and_pressed_again_all():
    shown = Shown(TO_WRITE=83, REFUSED=417)
    buttons = shown.view.buttons
    assert shown.pressed == [None]
    buttons[Mark.REFUSED].value = True
    assert (shown.chosen, shown.pressed) == (Mark.REFUSED, [Mark.REFUSED])
    assert buttons[Mark.REFUSED].tooltip.endswith(", chosen")
    buttons[Mark.TO_WRITE].value = True
    assert (shown.chosen, shown.pressed) == (Mark.TO_WRITE, [Mark.TO_WRITE])
    buttons[Mark.TO_WRITE].value = False
    assert (shown.chosen, shown.pressed) == (None, [None])
    buttons[None].value = False
    assert (shown.chosen, shown.pressed) == (None, [None])


def test_what_is_chosen_stays_to_be_seen_where_none_is_left_of_it():
    shown = Shown(TO_WRITE=1, REFUSED=1)
    shown.view.buttons[Mark.TO_WRITE].value = True
    shown.counts[Mark.TO_WRITE] = 0
    shown.render()
    assert shown.view.buttons[Mark.TO_WRITE].layout.display != "none"
    shown.view.buttons[None].value = True
    assert shown.view.buttons[Mark.TO_WRITE].layout.display == "none"
