"""The query of a registration and of its update."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_server.extensions.lwm2m.registration_parameters import (
    RegistrationParameters,
    read_registration,
    read_update,
)
from mirror_server.extensions.lwm2m.transport_api import RequestRejected


def test_bindings_with_udp_are_accepted():
    queue_modes = {"U": False, "UQ": True, "UQS": True, "US": False, "UT": False, "TQU": True}
    for binding, queue_mode in queue_modes.items():
        parsed = read_registration(["ep=a", f"b={binding}"])
        assert (parsed.binding, parsed.queue_mode) == (binding, queue_mode)
    # In 1.1 queue mode is a separate flag.
    for flag in ("Q", "Q="):
        assert read_registration(["ep=a", "lwm2m=1.1", "b=U", flag]).queue_mode


def test_invalid_parameters_fail_with_field_and_cure():
    lifetimes = ("0", "", "-1", "1.5", "4294967296", "9" * 400, "x", "\u0661")
    for reason, queries in {
        "ep is missing": [[]],
        "ep='' is not valid": [["ep="], ["ep"]],
        "1 to 64 printable": [["ep=" + "a" * 65], ["ep=a\nb"], ["ep=\x1b[2J"], ["ep=a\u202eb"], ["ep=\udcff"]],
        "et=": [["ep=a", "et=\x00"]],
        "duplicate parameter ep": [["ep=a", "ep=a"]],
        "duplicate parameter lt": [["ep=a", "lt=1", "lt=2"]],
        "whole seconds from 1": [["ep=a", f"lt={lifetime}"] for lifetime in lifetimes],
        "b=S is SMS": [["ep=a", "b=S"]],
        "b=TQ is TCP": [["ep=a", "b=TQ"]],
        "b=N is non-IP": [["ep=a", "b=N"]],
        "no transport": [["ep=a", "b=Q"]],
        "is not a binding": [["ep=a", f"b={binding}"] for binding in ("", "u", "UU", "\x00")],
        "send Q without one": [["ep=a", "Q=maybe"]],
    }.items():
        for query in queries:
            with pytest.raises(RequestRejected, match=reason) as caught:
                read_registration(query)
            assert caught.value.code == "4.00"
            assert caught.value.reason.isprintable()
            assert len(caught.value.reason) < 200


def test_update_changes_only_its_parameters():
    registered = read_registration(["ep=a", "lt=60", "b=U"])
    assert read_update(["ep=a", "et=x", "lwm2m=9"], registered) == read_update([], registered) == registered
    assert read_update(["lt=120", "ep=other", "x"], registered).lifetime_seconds == 120
    assert read_update(["lt=120", "ep=other"], registered).endpoint_name == "a"
    sleeping = read_update(["b=UQ"], registered)
    assert (sleeping.queue_mode, sleeping.binding, sleeping.lifetime_seconds) == (True, "UQ", 60)
    assert not read_update(["b=U"], sleeping).queue_mode
    # In 1.1 a binding does not end queue mode.
    assert read_update(["b=UT"], read_registration(["ep=a", "lwm2m=1.1", "b=U", "Q"])).queue_mode
    assert read_update(["Q"], read_registration(["ep=a", "lwm2m=1.1"])).queue_mode
    for query in (["lt=0"], ["b=S"], ["Q=1"], ["lt=1", "lt=1"]):
        with pytest.raises(RequestRejected) as caught:
            read_update(query, registered)
        assert caught.value.code == "4.00"


keys = st.sampled_from(["ep", "lt", "b", "Q", "lwm2m", "et", "x", ""])
values = st.text() | st.sampled_from(["U", "UQ", "1.0", "60", "my-sensor"])


@settings(max_examples=40)
@given(st.lists(st.builds("{}={}".format, keys, values) | st.text()))
def test_arbitrary_parameters_parse_or_raise_request_rejected(query):
    for read in (read_registration, lambda query: read_update(query, RegistrationParameters("a"))):
        errors = []
        try:
            read(query)
        except RequestRejected as exc:
            errors.append(exc)
        assert all(exc.reason.isprintable() and exc.code in {"4.00", "4.12"} for exc in errors)


def test_name_is_sufficient_and_unknown_parameters_are_ignored():
    assert read_registration(["ep=my-sensor"]) == RegistrationParameters("my-sensor", "", 86_400, "1.0", "U", False)
    supported = ["b=UQ", "lwm2m=1.0.0", "ep=urn:imei:é=1", "lt=300", "et=Weather station"]
    unknown = ["d=home", "sms=123", "x", "x=1", "=", ""]
    parsed = RegistrationParameters("urn:imei:é=1", "Weather station", 300, "1.0", "UQ", True)
    assert read_registration([*supported, *unknown, *unknown]) == parsed


def test_unsupported_versions_are_rejected():
    assert [read_registration(["ep=a", f"lwm2m={parsed}"]).version for parsed in ("1.0", "1.1")] == ["1.0", "1.1"]
    for version in ("1.2", "2.0", "1", "", "1.1.", "1.0beta", "0.9", "1.10", "\x00"):
        with pytest.raises(RequestRejected, match="unsupported LwM2M version") as caught:
            read_registration([f"lwm2m={version}"])
        assert caught.value.code == "4.12"
