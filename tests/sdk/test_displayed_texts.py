"""Untrusted texts have no effect on a terminal or a spreadsheet, and never contain the access key."""

import csv
import io
import traceback
from datetime import UTC, datetime

import httpx
import pandas as pd
import pytest
from blocking_client import record_pauses
from client_test_data import DIMMER, all_to
from device_objects import SNAPSHOT_AT
from device_objects import device as device_object
from device_objects import resource as state
from hypothesis import given
from hypothesis import strategies as st

from mirror_sdk import AccessDenied
from mirror_sdk._formatting import display_names, visible, with_formula, without_formula, without_key
from mirror_sdk.cli.output import show, show_line
from mirror_sdk.cli.table_rows import PLAN_COLUMNS, RESULT_COLUMNS, table_rows
from mirror_sdk.errors import ConnectionFailed
from mirror_sdk.events import Event, EventKind
from mirror_sdk.frames import mirror, state_frame
from mirror_sdk.frames.csv_file import write_csv
from mirror_sdk.plan.checks import TargetDevice, check_all
from mirror_sdk.plan.requested_writes import RequestedWrite
from mirror_sdk.value_explanation import Facts, explain
from mirror_sdk.values import decode
from mirror_sdk.widgets.models.formatting import format_value
from mirror_sdk.wire.directory import Device

KEY = "ak_0123456789abcdef_" + "S3cr3t_" * 6 + "x"
SECRET = KEY.split("_", 2)[2]
MALICIOUS = f"your key {KEY} is \x1b[2Jnot\r\nwelcome \u202e, nor is {SECRET}"


def everything(error):
    """Return all texts of an error."""
    texts = [str(error), repr(error), repr(error.args), repr(vars(error))]
    return "\n".join([*texts, *traceback.format_exception(error)])


@pytest.mark.parametrize("kind", [AccessDenied, ConnectionFailed])
def test_an_error_that_contains_the_key_is_reported_without_it(client_of, kind):
    def answer(request):
        if kind is ConnectionFailed:
            raise httpx.RemoteProtocolError(f"illegal status line: {MALICIOUS}", request=request)
        said = dict.fromkeys(["reason", "message", "request_id"], MALICIOUS)
        more = {"fields": [{"name": MALICIOUS, "message": MALICIOUS}], f"other{KEY}": [MALICIOUS, {"deep": MALICIOUS}]}
        return httpx.Response(403, json={"object": "error", "code": 403, "type": f"x{KEY}", **said, **more})

    client = client_of(key=KEY, transport=httpx.MockTransport(answer))
    record_pauses(client)
    for call in (client.fleet.snapshot, lambda: client.get_device("a")):
        with pytest.raises(kind) as caught:
            call()
        error = caught.value
        texts = [everything(error)]
        if kind is AccessDenied:
            assert "your key <access key> is \\x1b[2Jnot\\r\\nwelcome \\u202e" in error.message
            assert "\n" not in str(error)
            texts += [error.type, error.reason, error.request_id, str(error.fields)]
        assert not any(one in str(error) for one in ("\x1b", "\r", "\u202e"))
        assert SECRET not in "".join(texts)
        assert not any(one in text for text in texts[1:] for one in ("\x1b", "\r", "\u202e"))
    assert SECRET not in str(client.notifications.status())


def test_a_short_key_is_removed_only_as_a_word_and_only_once():
    message = "Check its address; the key k, k_2 is <access key>"
    for _ in range(2):
        message = without_key(message, "k")
        assert message == "Check its address; the key <access key>, k_2 is <access key>"
    assert without_key(message, "key") == "Check its address; the <access key> <access key>, k_2 is <access key>"
    assert without_key(f"in{KEY}side, in{SECRET}side", KEY) == "in<access key>side, in<access key>side"


def csv_of(capsys, rows, columns):
    show(rows, columns, "csv")
    return list(csv.reader(io.StringIO(capsys.readouterr().out, newline="")))[1:]


FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "-", "+1e", "-inf", "\uff1d1", "'=1"]
FORMULAS += ["''@", "=text\r=1"]


def test_a_spreadsheet_executes_nothing(capsys):
    for cell in FORMULAS:
        assert csv_of(capsys, [{"value": cell}], ["value"]) == [[f"'{cell}"]]
        show_line({"value": cell}, "csv")
        assert next(csv.reader(io.StringIO(capsys.readouterr().out, newline=""))) == [f"'{cell}"]


def test_numbers_times_and_plain_texts_stay_as_they_are(capsys):
    for cell in ("-21.5", "+3", "-1e-7", "-.5", "text", "", "'quoted'", "a=b", "/3303/0/5700", "text\r=1", "text\n=1"):
        assert csv_of(capsys, [{"value": cell, "other": ""}], ["value", "other"]) == [[cell, ""]]
    at = datetime(2026, 1, 31, tzinfo=UTC)
    assert csv_of(capsys, [{"a": -1.5, "b": at, "c": None}], "abc") == [["-1.5", "2026-01-31T00:00:00.000+00:00", ""]]


@given(st.text() | st.text(alphabet="'{=+-@\t\r\n1a", max_size=6))
def test_a_cell_can_be_brought_back(cell):
    assert with_formula(without_formula(cell)) == cell


def test_a_table_of_pandas_is_written_likewise(tmp_path):
    frame = pd.DataFrame(
        {
            "name": pd.Categorical(["=1", "hall", None]),
            "text": pd.array(["@x\r=2", None, "-5"], "string"),
            "number": [-1.0, 2.0, 3.0],
            "kind": pd.Categorical(["a", "b", "a"], ordered=True),
        }
    )
    write_csv(frame, tmp_path / "fleet.csv")
    with (tmp_path / "fleet.csv").open(newline="") as file:
        _, *rows = csv.reader(file)
    assert rows == [["'=1", "'@x\r=2", "-1.0", "a"], ["hall", "", "2.0", "b"], ["", "-5", "3.0", "a"]]


def test_invisible_characters_are_escaped(capsys):
    plain = "Küche 21.5 °C 温度 😀"
    assert visible(plain) == plain
    escaped = "a\\x00\\x7f\\x9b zero\\u200bwidth line\\nend\\u2028 Ku\\u0308che \\U000e0041"
    assert visible("a\x00\x7f\x9b zero\u200bwidth line\nend\u2028 Ku\u0308che \U000e0041") == escaped
    show([{"value": "\x1b[2J\u202e"}], ["value"], None)
    show_line({"value": "\x1b[2J\u202e"}, None)
    assert capsys.readouterr().out.count("\\x1b[2J\\u202e") == 2


def test_similar_looking_names_are_distinguishable():
    alike = ["Küche", "küche", "Ku\u0308che", "Kü\u200bche", "\uff2b\u00fcche"]
    names = {f"0198f00d000{number}": name for number, name in enumerate(alike)}
    displayed = display_names(names | {"c": "Hall", "a": "stra\u00dfe", "b": "STRASSE"})
    assert len(set(displayed.values())) == 8
    assert displayed["0198f00d0000"] == "Küche (0198f00d0000)"
    assert displayed["0198f00d0002"] == "Ku\\u0308che (0198f00d0002)"
    assert (displayed["a"], displayed["b"], displayed["c"]) == ("straße (a)", "STRASSE (b)", "Hall")
    assert display_names({"aaaaaaaaaaaa1": "x", "bbbbbbbbbbbb1": "X"})["aaaaaaaaaaaa1"] == "x (aaaaaaaa)"


def test_tables_of_the_command_distinguish_names(client, simulator):
    plan = client.plan(all_to([simulator.add_device(name, [DIMMER]) for name in ("hall", "Hall", "roof")]))
    displayed = [row["device"] for row in table_rows(plan.frame, PLAN_COLUMNS, None)]
    assert len(set(displayed)) == 3
    assert [text.partition(" (")[0] for text in displayed] == ["hall", "Hall", "roof"]
    assert displayed[2] == "roof"
    assert [row["device"] for row in table_rows(plan.apply(), RESULT_COLUMNS, None, plan.frame)] == displayed


ACTING = "\x1b[2J\x1b]0;title\x07 a\r\nb\tc \u202edcba\u2066"
ESCAPED = "\\x1b[2J\\x1b]0;title\\x07 a\\r\\nb\\tc \\u202edcba\\u2066"


def acting_device():
    text = ACTING.encode()
    return device_object(
        state("/3/0/0", text, text),
        state("/3303/0/5700", b"21.5", b"20"),
        state("/3303/0/5701", text),
        state("/9999/0/1", b'[{"n":"/9999/0/1/0","vs":"\\u001b[2J\\u202e"}]', content_type="application/senml+json"),
        endpoint_name=ACTING,
    )


def listed_device():
    times = {"created_at": SNAPSHOT_AT, "updated_at": SNAPSHOT_AT}
    return Device.model_validate({"id": "015f00", "endpoint_name": ACTING, "state": "registered", **times})


def acts(text):
    return any(one in text for one in "\x1b\x07\r\t\u202e\u2066")


def test_resources_escape_control_characters():
    device = acting_device()
    for path in ("/3/0/0", "/3303/0/5700", "/3303/0/5701", "/9999/0/1"):
        resource = device[path]
        displayed = [repr(resource), str(resource), repr(resource.reported), str(resource.reported.value), repr(device)]
        displayed.append(format_value(resource.reported.value, resource.unit))
        assert not any(acts(one) or "\n" in one for one in displayed), path
    assert not acts(device._repr_html_())
    # Data stay unchanged.
    assert device["/3/0/0"].value == ACTING
    assert device["/3303/0/5700"].unit == ACTING


@pytest.mark.parametrize("path", ["/3/0/0", "/3303/0/5700"])
def test_explanations_escape_control_characters(path):
    unknown = dict.fromkeys(["subscription", "rules", "waiting", "contacts", "connection"])
    facts = Facts(device=listed_device(), mirrored=acting_device(), path=path, announced=[], **unknown)
    explanation = explain(facts)
    for text in (str(explanation), explanation._repr_html_(), *explanation.why):
        assert not acts(text)
    assert f"of {ESCAPED} ({path})" in explanation.title


def test_events_and_plans_escape_control_characters():
    event = Event(
        kind=EventKind.OBSERVATION,
        received_at=SNAPSHOT_AT,
        value=decode(ACTING.encode(), None, "/3/0/0"),
        category=ACTING,
    )
    assert not acts(repr(event))
    known = TargetDevice(listed_device(), SNAPSHOT_AT, acting_device().resources)
    (planned,) = check_all([RequestedWrite("015f00", "/9998/0/1", "x")], {"015f00": known}, {})
    assert planned.reason == f"{ESCAPED} has no resource /9998/0/1"


def test_a_table_can_be_printed_with_its_texts_made_visible():
    frame = state_frame([acting_device()], taken_at=SNAPSHOT_AT)
    displayed = mirror(frame).visible()
    assert acts(frame.to_string())
    assert not acts(displayed.to_string(max_colwidth=None))
    assert displayed.loc[0, "reported_text"] == ESCAPED
    assert frame.loc[0, "reported_text"] == ACTING
    assert displayed["reported_num"].equals(frame["reported_num"])
    assert (list(displayed.columns), displayed.attrs) == (list(frame.columns), frame.attrs)
