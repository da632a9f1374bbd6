"""The query of a registration and of its update."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_server.devices.lwm2m.registration import (
    RegistrationParameters,
    RegistrationRefused,
    UpdateParameters,
    read_registration,
    read_update,
)


def test_the_name_alone_is_enough():
    assert read_registration(["ep=my-sensor"]) == RegistrationParameters("my-sensor", "", 86_400, "1.0", "U", False)


def test_everything_that_can_be_told():
    query = [
        "b=UQ",
        "lwm2m=1.0.0",
        "ep=urn:imei:é=1",
        "lt=300",
        "et=Weather station",
        "d=home",
        "sms=123",
        "x",
        "x=1",
        "=",
        "",
    ]
    told = RegistrationParameters("urn:imei:é=1", "Weather station", 300, "1.0", "UQ", True)
    assert read_registration([*query, "d=home", "sms=123", "x", "x=1", "=", ""]) == told


@pytest.mark.parametrize(
    ("told", "version"), [([], "1.0"), (["lwm2m=1.0"], "1.0"), (["lwm2m=1.0.0"], "1.0"), (["lwm2m=1.1"], "1.1")]
)
def test_the_versions_that_are_spoken(told, version):
    assert read_registration(["ep=a", *told]).version == version


@pytest.mark.parametrize("version", ["1.2", "2.0", "1", "", "1.1.", "1.0beta", "0.9", "1.10", "\x00"])
def test_a_version_that_is_not_spoken(version):
    with pytest.raises(RegistrationRefused, match="is not spoken here") as refusal:
        read_registration([f"lwm2m={version}"])
    assert refusal.value.code == "4.12"


@pytest.mark.parametrize(
    ("binding", "queue_mode"), [("U", False), ("UQ", True), ("UQS", True), ("US", False), ("UT", False), ("TQU", True)]
)
def test_bindings_with_udp_are_taken(binding, queue_mode):
    told = read_registration(["ep=a", f"b={binding}"])
    assert (told.binding, told.queue_mode) == (binding, queue_mode)


def test_queue_mode_of_1_1_is_a_flag_of_its_own():
    assert read_registration(["ep=a", "lwm2m=1.1", "b=U", "Q"]).queue_mode
    assert read_registration(["ep=a", "lwm2m=1.1", "Q="]).queue_mode


NO_LIFETIMES = ["0", "", "-1", "1.5", "4294967296", "9" * 400, "x", "\u0661"]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ([], "ep is missing"),
        (["ep="], "ep='' is no name"),
        (["ep"], "ep='' is no name"),
        (["ep=" + "a" * 65], "1 to 64 printable"),
        (["ep=a\nb"], "printable"),
        (["ep=\x1b[2J"], "printable"),
        (["ep=a\u202eb"], "printable"),
        (["ep=\udcff"], "printable"),
        (["ep=a", "et=\x00"], "et="),
        (["ep=a", "ep=a"], "ep is given twice"),
        (["ep=a", "lt=1", "lt=2"], "lt is given twice"),
        *((["ep=a", f"lt={lt}"], "whole seconds from 1") for lt in NO_LIFETIMES),
        (["ep=a", "b=S"], "b=S is SMS"),
        (["ep=a", "b=TQ"], "b=TQ is TCP"),
        (["ep=a", "b=N"], "b=N is non-IP"),
        (["ep=a", "b=Q"], "no transport"),
        (["ep=a", "b="], "no binding"),
        (["ep=a", "b=u"], "no binding"),
        (["ep=a", "b=UU"], "no binding"),
        (["ep=a", "b=\x00"], "no binding"),
        (["ep=a", "Q=maybe"], "give Q alone"),
    ],
)
def test_what_cannot_be_is_refused_with_the_field_and_the_cure(query, reason):
    with pytest.raises(RegistrationRefused, match=reason) as refusal:
        read_registration(query)
    assert refusal.value.code == "4.00"
    assert refusal.value.reason.isprintable()
    assert len(refusal.value.reason) < 200


def test_an_update_changes_what_it_tells():
    registered = read_registration(["ep=a", "lt=60", "b=U"])
    assert registered.updated(read_update([])) == registered
    assert registered.updated(read_update(["lt=120", "ep=other", "x"])).lifetime_seconds == 120
    assert registered.updated(read_update(["lt=120", "ep=other"])).endpoint_name == "a"
    sleeping = registered.updated(read_update(["b=UQ"]))
    assert (sleeping.queue_mode, sleeping.binding, sleeping.lifetime_seconds) == (True, "UQ", 60)
    assert not sleeping.updated(read_update(["b=U"])).queue_mode


def test_in_1_1_a_new_binding_does_not_end_queue_mode():
    registered = read_registration(["ep=a", "lwm2m=1.1", "b=U", "Q"])
    assert registered.updated(read_update(["b=UT"])).queue_mode
    assert read_registration(["ep=a", "lwm2m=1.1"]).updated(read_update(["Q"])).queue_mode


@pytest.mark.parametrize("query", [["lt=0"], ["b=S"], ["Q=1"], ["lt=1", "lt=1"]])
def test_an_update_is_refused_like_a_registration(query):
    with pytest.raises(RegistrationRefused) as refusal:
        read_update(query)
    assert refusal.value.code == "4.00"


def test_an_empty_update_changes_nothing():
    assert read_update(["ep=a", "et=x", "lwm2m=9"]) == UpdateParameters()


keys = st.sampled_from(["ep", "lt", "b", "Q", "lwm2m", "et", "x", ""])
values = st.text() | st.sampled_from(["U", "UQ", "1.0", "60", "my-sensor"])


@given(st.lists(st.builds("{}={}".format, keys, values) | st.text()))
def test_nothing_but_the_one_error_is_raised(query):
    for read in (read_registration, read_update):
        refusals = []
        try:
            read(query)
        except RegistrationRefused as exc:
            refusals.append(exc)
        assert all(exc.reason.isprintable() and exc.code in {"4.00", "4.12"} for exc in refusals)
