"""The description contains the routes of extensions of other packages."""

FAREWELL = """
from flask import Blueprint

from mirror_server.views.description import TEXT, ResponseSpec, Parameter, described, object_like
from mirror_server.hooks import extends
from mirror_server.views.requests import requires

routes = Blueprint("farewell", __name__)


@extends
def blueprints():
    return [routes]


@routes.get("/farewell")
@requires(query=("visitor",))
@described(
    "Operation",
    ResponseSpec(200, "Done.", object_like({"goodbye": "you"})),
    parameters=(Parameter("visitor", "The visitor who leaves.", TEXT),),
    is_extension=True,
)
def take_leave():
    \"\"\"Take leave.

    Ends the visit.
    \"\"\"
    return {"goodbye": "you"}


@routes.get("/silence")
@requires()
def say_nothing():
    return ""
"""


def test_views_of_other_packages_are_described_if_they_have_a_description(install, new_server):
    install("farewell", FAREWELL)
    server = new_server()
    assert server.call(None, "GET", "/silence").status_code == 200
    paths = server.call(None, "GET", "/openapi.json").json["paths"]
    farewell = paths["/farewell"]["get"]
    assert (farewell["summary"], farewell["description"]) == ("Take leave", "Ends the visit.")
    assert [one["name"] for one in farewell["parameters"]] == ["visitor"]
    assert "/silence" not in paths


def test_routes_of_an_extension_that_is_left_out_are_not_described(install, new_server):
    install("farewell", FAREWELL)
    server = new_server(without=("farewell",))
    assert "/farewell" not in server.call(None, "GET", "/openapi.json").json["paths"]
