"""Views of fleet tables, and the file that contains them."""

import pytest
from resource_paths import TEMPERATURE

from mirror_sdk.errors import InvalidValue
from mirror_sdk.widgets.models.fleet_view import FleetView, ViewFile

VIEW = {
    "columns": ["name", "status", "attribute.room"],
    "group_by": "type",
    "status": "failed",
    "search": "light",
    "sort_by": "last_contact",
    "descending": True,
    "resource": TEMPERATURE,
}


def test_view_is_a_dictionary_of_json_values():
    view = FleetView.from_dict(VIEW)
    assert view.to_dict() == VIEW
    assert FleetView.from_dict({}) == FleetView()
    assert view.with_changes({"group_by": "", "search": ""}).to_dict() == VIEW | {"group_by": "", "search": ""}


@pytest.mark.parametrize(
    ("view", "problem"),
    [
        ({"order_by": []}, "a view has no member 'order_by'; its members are columns, group_by"),
        ({"columns": "name"}, "columns of a view must be a list of names, got 'name'"),
        ({"columns": ["naem"]}, "a fleet table has no column 'naem'; similar: name"),
        ({"group_by": "kind"}, "a fleet table has no column 'kind'"),
        ({"descending": "yes"}, "descending of a view must be true or false, got 'yes'"),
        ({"status": "bad"}, "status must be one of failed, drifting, .*, got 'bad'"),
        ({"resource": "3303"}, "resource: '3303' is not a resource path"),
    ],
)
def test_invalid_view_is_rejected(view, problem):
    with pytest.raises(InvalidValue, match=problem):
        FleetView.from_dict(view)


def test_views_are_saved_in_a_file(tmp_path):
    views = ViewFile(tmp_path / "views.json")
    assert views.read() == {}
    with pytest.raises(InvalidValue, match=r"has no view 'night'; it has no views yet"):
        views.find("night")
    views.save(" night ", FleetView.from_dict(VIEW))
    views.save("day", FleetView())
    assert ViewFile(str(views.file)).find("night").to_dict() == VIEW
    assert list(views.read()) == ["night", "day"]
    with pytest.raises(InvalidValue, match="has no view 'noon'; its views are night, day"):
        views.find("noon")
    views.delete("night")
    views.delete("night")
    assert views.read() == {"day": FleetView()}
    assert [file.name for file in tmp_path.iterdir()] == ["views.json"]


def test_file_that_has_no_views_is_rejected_and_stays(tmp_path):
    views = ViewFile(tmp_path / "views.json")
    for content, problem in (("{", "is not a JSON file"), ("[1]", "a view for each name"), ('{"a": {"b": 1}}', "'b'")):
        views.file.write_text(content)
        with pytest.raises(InvalidValue, match=problem):
            views.save("night", FleetView())
        assert views.file.read_text() == content
    with pytest.raises(InvalidValue, match="the name of a view must have 1 to 80 printable characters, got ''"):
        ViewFile(tmp_path / "other.json").save(" ", FleetView())
