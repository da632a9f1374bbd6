"""Objects that are not built in: registered by code and by object definition files."""

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mirror_sdk import ResourceDeclaration, ResourceType, load_object_definitions, register_object
from mirror_sdk.errors import InvalidValue
from mirror_sdk.object_definitions import lookup, registry
from mirror_sdk.values import LWM2M_TLV, ValueKind, decode, encode

FLOW = ResourceDeclaration("Flow", ResourceType.FLOAT, "R", "l/s", (0, 50.5))
SPEED = ResourceDeclaration("Speed", ResourceType.INTEGER, "RW", "1/min", (0, 3000))
STOP = ResourceDeclaration("Stop", ResourceType.NONE, "E")
PUMP = {1: FLOW, 2: SPEED, 3: STOP}


def object_of(object_id, name, *items):
    resources = f"<Resources>{''.join(items)}</Resources>"
    return f"<LWM2M><Object><Name>{name}</Name><ObjectID>{object_id}</ObjectID>{resources}</Object></LWM2M>"


def item(number, operations, type_, rest="", name=None, instances="Single"):
    return (
        f'<Item ID="{number}"><Name>{name or f"N{number}"}</Name><Operations>{operations}</Operations>'
        f"<MultipleInstances>{instances}</MultipleInstances><Type>{type_}</Type>{rest}</Item>"
    )


def within(values, units=""):
    return f"<RangeEnumeration>{values}</RangeEnumeration><Units>{units}</Units>"


PUMP_XML = '<?xml version="1.0" encoding="UTF-8"?>' + object_of(
    33001,
    "Pump",
    item(1, "R", "Float", within("0..50.5", "l/s"), "Flow"),
    item(2, "RW", "Unsigned Integer", within("0..100", "/100"), "Speed\n", "Multiple"),
    item(3, "E", "", name="Stop"),
    item(4, "RW", "String", within("0..255"), "Note"),
    item(5, "RW", "Integer", within("1, 2 or 7"), "Mode"),
    item(6, "", "Opaque", name="Secret"),
)


@pytest.fixture(autouse=True)
def table_as_before(monkeypatch):
    monkeypatch.setattr(registry, "_table", registry._table)


def test_a_registered_object_types_its_values():
    raw = bytes.fromhex("c40141ac0000")
    assert decode(raw, LWM2M_TLV, "/33000/0/1").python == raw[2:]
    register_object(33000, "Pump", PUMP | {4: FLOW._replace(type="time", range=None)})
    found = lookup("/33000/7/1")
    assert found is not None
    assert (found.label, found.unit, found.range) == ("Pump · Flow", "l/s", (0, 50.5))
    assert decode(raw, LWM2M_TLV, "/33000/0/1").python == 21.5
    # A type may be named by a word.
    assert decode(b"0", None, "/33000/0/4").kind is ValueKind.TIME
    assert encode(1500, "/33000/0/2") == (b"1500", "text/plain")
    with pytest.raises(InvalidValue, match=r"Pump · Speed, integer.* from 0 to 3000"):
        encode(3001, "/33000/0/2")


def test_the_same_declaration_again_changes_nothing_and_another_needs_replace():
    register_object(33000, "Pump", PUMP)
    register_object(33000, "Pump", PUMP)
    with pytest.raises(ValueError, match=r"object 33000 is declared already \(Pump\); pass replace=True"):
        register_object(33000, "Fan", {1: FLOW})
    register_object(33000, "Fan", {1: FLOW}, replace=True)
    assert lookup("/33000/0/2") is None
    with pytest.raises(ValueError, match=r"Temperature"):
        register_object(3303, "Mine", PUMP)


@pytest.mark.parametrize(
    ("object_id", "name", "resources", "words"),
    [
        (0, "Keys", PUMP, "object_id=0 is the security object"),
        (65536, "Pump", PUMP, "object_id 65536"),
        (True, "Pump", PUMP, "object_id True"),
        (33000, " ", PUMP, "name=' '"),
        (33000, "Pump", {}, "no resources"),
        (33000, "Pump", {70000: FLOW}, "resource id of object 33000: 70000"),
        (33000, "Pump", {1: ("Flow", "float", "R")}, "is not a ResourceDeclaration"),
        (33000, "Pump", {1: FLOW._replace(name="")}, "resource 1 of object 33000: name=''"),
        (33000, "Pump", {1: FLOW._replace(type="double")}, "type='double' must be one of string, integer"),
        (33000, "Pump", {1: FLOW._replace(access="WR")}, "access='WR' must be one of R, W, RW, E"),
        (33000, "Pump", {1: FLOW._replace(access="E")}, "access 'E' requires type 'none'"),
        (33000, "Pump", {1: STOP._replace(access="R")}, "access 'E' requires type 'none'"),
        (33000, "Pump", {1: FLOW._replace(unit=None)}, "unit=None"),
        (33000, "Pump", {1: FLOW._replace(range=(2, 1))}, r"range=\(2, 1\)"),
        (33000, "Pump", {1: FLOW._replace(range=(0, float("inf")))}, "range="),
        (33000, "Pump", {1: FLOW._replace(range=5)}, "range=5"),
        (33000, "Pump", {1: STOP._replace(range=(0, 1))}, "has no range"),
    ],
)
def test_invalid_declaration_is_rejected_completely(object_id, name, resources, words):
    with pytest.raises(ValueError, match=words):
        register_object(object_id, name, resources)
    assert lookup("/33000/0/1") is None


def test_concurrent_registration_and_lookup():
    ids = range(33000, 33200)

    def register(start):
        for object_id in ids[start::4]:
            register_object(object_id, "Pump", PUMP)
            assert lookup(f"/{object_id}/0/1")

    def read_definitions():
        for object_id in random.choices(ids, k=5000):
            found = [lookup(f"/{object_id}/0/{number}") for number in (1, 2)]
            assert all("Pump" in definition.label for definition in found if definition)

    with ThreadPoolExecutor(5) as pool:
        for done in [pool.submit(read_definitions), *(pool.submit(register, start) for start in range(4))]:
            done.result(60)
    assert all(lookup(f"/{object_id}/0/1") for object_id in ids)


def check_pump():
    found = [lookup(f"/33001/0/{number}") for number in range(1, 6)]
    assert [(one.label, one.type, one.unit, one.access, one.range, one.multiple) for one in found] == [
        ("Pump · Flow", "float", "l/s", "R", (0, 50.5), False),
        ("Pump · Speed", "unsigned", "%", "RW", (0, 100), True),
        ("Pump · Stop", "none", "", "E", None, False),
        ("Pump · Note", "string", "", "RW", None, False),
        ("Pump · Mode", "integer", "", "RW", None, False),
    ]
    assert lookup("/33001/0/6") is None


def test_an_object_definition_is_loaded_from_its_text_and_from_its_file(tmp_path: Path):
    assert load_object_definitions(PUMP_XML) == [33001]
    check_pump()
    file = tmp_path / "router.xml"
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "iso-8859-1"):
        file.write_text(PUMP_XML.replace("UTF-8", encoding.removesuffix("-sig").upper()), encoding=encoding)
        assert load_object_definitions(file, replace=True) == [33001]
        check_pump()
    assert load_object_definitions(str(file)) == [33001]
    with pytest.raises(FileNotFoundError):
        load_object_definitions("no such file.xml")


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PUMP_XML.replace("<LWM2M>", f"{BOMB}<LWM2M>").replace("Pump", "&b;"), "entities are not expanded"),
        (PUMP_XML.replace("<LWM2M>", '<!DOCTYPE x SYSTEM "file:///etc/passwd"><LWM2M>'), "entities are not expanded"),
        (PUMP_XML.replace("Pump", "&b;"), "not XML: undefined entity"),
        ("<LWM2M><Object></LWM2M>", "not XML: mismatched tag"),
        ("<html/>", "no <Object>"),
        ("<\ud800/>", "not XML"),
        (PUMP_XML.replace("33001", ""), "<ObjectID> must be an integer between 0 and 65535, got ''"),
        (PUMP_XML.replace("33001", "99999"), "99999"),
        (PUMP_XML.replace('ID="2"', 'ID="-2"'), "ID of an <Item> must be an integer between 0 and 65535, got '-2'"),
        (PUMP_XML.replace("Unsigned Integer", "Uint"), "resource 2 of object 33001: <Type> must be one of string"),
        (PUMP_XML.replace("<Operations>RW", "<Operations>RX"), "access='RX'"),
        (PUMP_XML.replace("<Name>Pump</Name>", ""), "name=''"),
    ],
)
def test_invalid_object_definition_is_rejected(text, words):
    with pytest.raises(ValueError, match=words):
        load_object_definitions(text)
    assert lookup("/33001/0/1") is None


@pytest.mark.parametrize(
    "odd", [item(2, "R", ""), item(2, "RW", "<!-- none -->"), item(2, "R", "").replace("<Type></Type>", "")]
)
def test_an_item_without_a_type_that_is_not_executable_is_left_out_with_a_warning(odd):
    # The registry's object 10482 has such an item.
    left_out = r"resource 2 of object 33002 \(N2\) has operations '(R|RW)' but no <Type>, so it is left out"
    with pytest.warns(UserWarning, match=left_out) as caught:
        assert load_object_definitions(object_of(33002, "Odd", item(1, "R", "Float"), odd, item(3, "E", ""))) == [33002]
    assert [warning.filename for warning in caught] == [__file__]
    assert lookup("/33002/0/2") is None
    assert (lookup("/33002/0/1").type, lookup("/33002/0/3").access) == ("float", "E")


def test_operations_are_read_in_every_spelling():
    spellings = dict.fromkeys(("RW", "R W", "R, W", "R/W", "WR", "Read/Write"), "RW")
    for text, access in (spellings | {"r": "R", "Read": "R", "W\n": "W", " E ": "E", "Execute": "E"}).items():
        load_object_definitions(object_of(33002, "Odd", item(1, text, "" if access == "E" else "String")), replace=True)
        assert lookup("/33002/0/1").access == access


@pytest.mark.parametrize(
    ("rest", "unit", "range_"),
    [
        ("", "", None),
        ("<RangeEnumeration/><Units/>", "", None),
        ("<RangeEnumeration> -40 .. 85 </RangeEnumeration><Units> Cel </Units>", "Cel", (-40, 85)),
        ("<RangeEnumeration>0..64 bytes</RangeEnumeration>", "", None),
        ("<Units>m&#179;/h &amp; more</Units><Description><![CDATA[a < b & c]]></Description>", "m³/h & more", None),
    ],
)
def test_elements_of_an_item_may_be_missing_or_empty(rest, unit, range_):
    load_object_definitions(object_of(33002, "Odd", item(1, "RW", "integer", rest)))
    found = lookup("/33002/0/1")
    assert (found.type, found.unit, found.range) == ("integer", unit, range_)


def test_odd_beginnings_and_namespaces_of_a_file_are_read(tmp_path):
    plain = object_of(33002, "Odd", item(1, "R", "Float"))
    prefixed = plain.replace("</", "</o:").replace("<", "<o:").replace("<o:/o:", "</o:")
    for text in (
        "\ufeff<?xml version='1.0' encoding='utf-8'?>\n<!-- made by hand -->" + plain,
        "\n\n<?xml version='1.0'?>" + plain,
        plain.replace("<LWM2M>", '<LWM2M xmlns="urn:oma" xmlns:xsi="urn:x" xsi:y="z">'),
        prefixed.replace("<o:LWM2M>", '<o:LWM2M xmlns:o="urn:oma">'),
    ):
        (tmp_path / "odd.xml").write_text(text, encoding="utf-8")
        for source in (text, tmp_path / "odd.xml"):
            assert load_object_definitions(source, replace=True) == [33002]
            assert lookup("/33002/0/1").label == "Odd · N1"
