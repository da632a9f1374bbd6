import pytest

from mirror_sdk import object_definitions, object_table
from mirror_sdk.object_definitions import IN_SENSOR_UNITS, ResourceDefinition, ResourceType, lookup

SENSORS = (3300, 3301, 3303, 3304, *range(3315, 3332), 3346)
MAIN_RESOURCES = [
    *((3, 0), (4, 0), (5, 3), (6, 0), (3200, 5500), (3201, 5550), (3202, 5600), (3203, 5650), (3302, 5500)),
    *((3305, 5800), (3306, 5850), (3308, 5900), (3311, 5850), (3312, 5850), (3313, 5702), (3335, 5706)),
    *((3310, 5823), (3314, 5702), (3332, 5705), (3333, 5506), (3334, 5508), (3336, 6051), (3337, 5536), (3338, 5548)),
    *((3339, 5522), (3340, 5538), (3341, 5527), (3343, 5548), (3344, 5541), (3345, 5702), (1, 1), (7, 2)),
    *((3342, 5500), (3347, 5500), *((object_id, 5700) for object_id in SENSORS)),
]


@pytest.mark.parametrize(("object_id", "resource_id"), MAIN_RESOURCES)
def test_every_object_declares_its_main_resource(object_id, resource_id):
    definition = lookup(f"/{object_id}/0/{resource_id}")
    assert definition is not None
    assert (definition.object_id, definition.resource_id) == (object_id, resource_id)
    assert " · " in definition.label


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/3/0/9", ("Device · Battery Level", ResourceType.INTEGER, "%", "R", (0, 100))),
        ("/3/0/4", ("Device · Reboot", ResourceType.NONE, "", "E", None)),
        ("/3/0/22", ("Device · ExtDevInfo", ResourceType.OBJLINK, "", "R", None)),
        ("/5/0/0", ("Firmware Update · Package", ResourceType.OPAQUE, "", "W", None)),
        ("/5/0/13", ("Firmware Update · Maximum Defer Period", ResourceType.UNSIGNED, "s", "RW", None)),
        ("/3303/0/5700", ("Temperature · Sensor Value", ResourceType.FLOAT, "", "R", None)),
        ("/3311/0/5851", ("Light Control · Dimmer", ResourceType.INTEGER, "%", "RW", (0, 100))),
        ("/3305/0/5805", ("Power Measurement · Cumulative active power", ResourceType.FLOAT, "Wh", "R", None)),
    ],
)
def test_definitions_are_those_of_the_registry(path, expected):
    found = lookup(path)
    assert isinstance(found, ResourceDefinition)
    assert (found.label, found.type, found.unit, found.access, found.range) == expected


def test_the_instance_and_the_resource_instance_do_not_matter():
    assert lookup("/3303/65535/5700") is lookup("/3303/0/5700")
    assert lookup("/3/0/7/1") is lookup("/3/0/7")


@pytest.mark.parametrize("path", ["", "/", "/3303", "/3303/0", "/3303/0/1", "/9999/0/5700", "3303/0/5700", "/a/b/c"])
def test_undeclared_resource_is_none(path):
    assert lookup(path) is None


def test_sensor_units_speak_of_numbers_without_a_unit_of_their_own():
    declared = [lookup(f"/{object_id}/0/{number}") for object_id, _ in MAIN_RESOURCES for number in IN_SENSOR_UNITS]
    found = [definition for definition in declared if definition]
    assert {definition.resource_id for definition in found} == IN_SENSOR_UNITS
    assert {(definition.type, definition.unit) for definition in found} == {(ResourceType.FLOAT, "")}


def test_the_earlier_module_has_the_same_names():
    for name in object_definitions.__all__:
        assert getattr(object_table, name) is getattr(object_definitions, name)
