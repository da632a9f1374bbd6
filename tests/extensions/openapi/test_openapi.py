"""The description compared with the app, the examples and the rules of OpenAPI."""

import importlib
import re
from itertools import chain

import pytest

from mirror_sdk.wire import routes
from mirror_sdk.wire.errors import ERROR_TYPES
from mirror_sdk.wire.snapshot import ARROW
from mirror_server.hooks import installed
from mirror_server.service.keys import Scope

METHODS = {"get", "put", "post", "patch", "delete"}


@pytest.fixture(scope="module")
def document(shared_server):
    return shared_server.call(None, "GET", "/openapi.json").json


def operations(document):
    return {
        (method, path): operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    }


def described_rules(server):
    """Yield the rules of the app that have a view."""
    services = server.services
    absent = tuple(chain(*services.extensions.hook.openapi_exclusions(settings=services.settings)))
    return [rule for rule in server.app.url_map.iter_rules() if not rule.rule.startswith(absent)]


def contents(document):
    """Yield every body of the description with its media type and its location."""
    webhooks = [(("put", "webhook"), item["put"]) for item in document["webhooks"].values()]
    for location, operation in [*operations(document).items(), *webhooks]:
        bodies = [operation["requestBody"]] if "requestBody" in operation else []
        bodies += [answer for answer in operation["responses"].values() if "content" in answer]
        for body in bodies:
            for media_type, content in body["content"].items():
                yield location, media_type, content
    for code, answer in document["components"]["responses"].items():
        yield code, "application/json", answer["content"]["application/json"]


def test_document_is_valid_openapi(document):
    from openapi_spec_validator import validate  # noqa: PLC0415 - takes seconds, which other tests do without

    validate(document)
    assert document["openapi"].startswith("3.1")


def test_document_has_exactly_the_routes_of_the_app(shared_server, document):
    there = {
        (method.lower(), re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule))
        for rule in described_rules(shared_server)
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }
    assert set(operations(document)) == there


def test_document_has_the_required_scopes(shared_server, document):
    for (method, path), operation in operations(document).items():
        url = path.format(device_id="nobody", path="1/0/0", file="page.js", query_id="none", event_id="none")
        scopes = set(operation.get("x-scopes", []))
        assert (operation.get("security") == []) == (not scopes)
        for scope in Scope:
            key = shared_server.key(scope)
            query = {"hold": 0} if (method, path) == ("get", routes.PULL) else {}
            answer = shared_server.call(key, method.upper(), url, query_string=query)
            assert (answer.status_code == 403) == bool(scopes and scope not in scopes), (method, path, scope)


def test_every_example_matches_its_schema(document):
    import jsonschema  # noqa: PLC0415 - as above

    found = 0
    for location, media_type, content in contents(document):
        examples = [one["value"] for one in content.get("examples", {}).values()]
        examples += [content["example"]] if "example" in content else []
        assert examples, (location, media_type)
        schema = {**content["schema"], "components": document["components"]}
        for example in examples:
            jsonschema.Draft202012Validator(schema).validate(example)
            found += 1
    assert found > 50


def test_every_error_has_the_body_of_errors(document):
    responses = document["components"]["responses"]
    assert set(responses) == {str(code) for code in ERROR_TYPES} - {"405"}
    for code, answer in responses.items():
        content = answer["content"]["application/json"]
        assert content["schema"] == {"$ref": "#/components/schemas/ErrorBody"}
        assert content["example"]["code"] == int(code)
    for operation in operations(document).values():
        own = {code: answer for code, answer in operation["responses"].items() if int(code) >= 400}
        assert {"500", "503"} <= set(own)
        # An error with more members has at least these.
        more = {code: answer for code, answer in own.items() if answer != {"$ref": f"#/components/responses/{code}"}}
        assert set(more) <= {"412"}
        for answer in more.values():
            model = answer["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            schemas = document["components"]["schemas"]
            assert schemas["ErrorBody"]["properties"].keys() < schemas[model]["properties"].keys()


def test_an_unchanged_description_is_not_sent_again(server):
    tag = server.call(None, "GET", "/openapi.json").headers["ETag"]
    again = server.call(None, "GET", "/openapi.json", headers={"If-None-Match": tag})
    assert (again.status_code, again.get_data()) == (304, b"")
    assert server.call(None, "GET", "/openapi.json?misspelt=1").status_code == 200


def test_request_bodies_reject_unknown_members_and_response_bodies_allow_them(document):
    schemas = document["components"]["schemas"]
    for model in ("DeviceRequestBody", "PresubscriptionRule", "CallbackRegistration", "SerializationConfig"):
        assert schemas[model]["additionalProperties"] is False
    for model in ("DeviceObjectBody", "Device", "NotificationMessage"):
        assert schemas[model]["additionalProperties"] is True


def test_every_member_has_a_description(document):
    for name, schema in document["components"]["schemas"].items():
        for member, described in schema.get("properties", {}).items():
            assert "description" in described or f"`{member}`" in schema["description"], (name, member)


def test_document_has_every_supported_query_parameter(shared_server, document):
    for rule in described_rules(shared_server):
        known = shared_server.app.view_functions[rule.endpoint].__dict__["known_query"]
        for method in rule.methods - {"HEAD", "OPTIONS"} if known is not None else ():
            path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule)
            parameters = operations(document)[method.lower(), path].get("parameters", [])
            assert [one["name"] for one in parameters if one["in"] == "query"] == list(known), (method, path)


@pytest.mark.parametrize(
    ("extension", "path"),
    [each for each in (("snapshots", routes.SNAPSHOT), ("history", routes.HISTORY)) if each[0] in installed()],
)
def test_document_lists_the_arrow_columns_of_the_schema(document, extension, path):
    schema = importlib.import_module(f"mirror_server.extensions.{extension}.arrow").SCHEMA
    ((*_, content),) = (each for each in contents(document) if each[:2] == (("get", path), ARROW))
    description = content["schema"]["description"]
    lines = re.findall(r"^( *)- `(\w+)` ([\w, =\[\]]*\w\]?)", description, re.MULTILINE)

    def kind(of):
        return str(getattr(of, "value_type", of)) if not hasattr(of, "value_field") else "list"

    there = []
    for column in schema:
        there.append(("", column.name, kind(column.type)))
        if kind(column.type) == "list":
            there += [("    ", inner.name, kind(inner.type)) for inner in column.type.value_type]
    assert [(indent, name) for indent, name, _ in lines] == [(indent, name) for indent, name, _ in there]
    assert all(documented_kind.startswith(real) for (*_, documented_kind), (*_, real) in zip(lines, there, strict=True))


def schemas(node):
    """Yield every object of a document, which may be a schema."""
    if isinstance(node, dict):
        yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from schemas(child)


def test_client_generators_can_name_every_word_and_type_every_member(document):
    for schema in schemas(document):
        words = [word.upper() for word in schema.get("enum", ()) if isinstance(word, str)]
        assert len(set(words)) == len(words), schema
        assert all(member.get("type") != "null" for member in schema.get("properties", {}).values()), schema


def test_every_error_has_its_type(document):
    description = document["components"]["schemas"]["ErrorBody"]["properties"]["type"]["description"]
    assert all(f"`{kind}` ({code})" in description for code, kind in ERROR_TYPES.items())


def test_each_view_is_the_function_of_its_module_that_its_endpoint_names(shared_server):
    for endpoint, view in shared_server.app.view_functions.items():
        blueprint, _, name = endpoint.partition(".")
        module = importlib.import_module(shared_server.app.blueprints[blueprint].import_name)
        assert view is getattr(module, name), endpoint
