"""Tests of the rules that apply to every path. Source: wire.md 0."""

from __future__ import annotations

import httpx
import pytest

from mirror_sdk.testing.conformance.service import Service

UNKNOWN_DEVICE = "conformance-nobody"
ROUTES = (
    "GET /v3/devices",
    f"GET /v3/devices/{UNKNOWN_DEVICE}/echo",
    f"POST /v2/device-requests/{UNKNOWN_DEVICE}",
    "PUT /v2/subscriptions",
    "GET /v2/notification/pull",
    "PUT /v2/notification/callback",
)


def anonymous(service: Service, route: str, authorization: str | None) -> httpx.Response:
    """Send a request with another ``Authorization`` header, or without one."""
    method, _, path = route.partition(" ")
    headers = {} if authorization is None else {"Authorization": authorization}
    return httpx.request(method, f"{service.url}{path}", headers=headers, timeout=60)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("authorization", [None, "Bearer", "Basic abc"])
def test_a_request_without_a_key_is_401(service: Service, route: str, authorization: str | None) -> None:
    """The key is missing or malformed."""
    response = anonymous(service, route, authorization)
    assert response.status_code == 401
    assert (response.json()["object"], response.json()["type"]) == ("error", "invalid_auth")


def test_a_request_with_an_unknown_key_is_401(service: Service) -> None:
    """There is only one attempt, because a server may slow down clients that guess keys."""
    assert anonymous(service, ROUTES[0], "Bearer conformance").status_code in {401, 429}


def test_the_authorization_scheme_is_case_insensitive(service: Service) -> None:
    """The header is ``Authorization: bearer <key>``."""
    for scheme in ["bearer", "BEARER"]:
        key = service.http.headers["Authorization"].removeprefix("Bearer ")
        assert anonymous(service, ROUTES[0], f"{scheme} {key}").status_code == 200


@pytest.mark.parametrize("path", ["/v3/devices", "/v2/subscriptions"])
def test_a_trailing_slash_is_ignored(service: Service, path: str) -> None:
    """A trailing slash is optional on every path."""
    assert service.json("GET", f"{path}/") == service.json("GET", path)


def test_a_doubled_slash_is_ignored(service: Service, device_id: str, observable_path: str) -> None:
    """The request is ``PUT /v2/subscriptions/{id}//3303/0/5700``. A redirect is allowed."""
    assert service.call("PUT", f"/v2/subscriptions/{device_id}/{observable_path}").status_code == 200
    assert service.call("GET", f"/v2/subscriptions/{device_id}{observable_path}").status_code == 200
    assert service.call("DELETE", f"/v2/subscriptions/{device_id}{observable_path}").status_code == 204


def test_a_content_type_without_a_body_is_ignored(service: Service) -> None:
    """A GET or DELETE request may have ``Content-Type: application/json`` and no body."""
    headers = {"Content-Type": "application/json"}
    assert service.call("GET", "/v3/devices", headers=headers).status_code == 200
    assert service.call("DELETE", "/v2/subscriptions", headers=headers).status_code == 204


def test_an_unknown_field_is_rejected_by_name(service: Service) -> None:
    """The status is 400, and the error contains the name of the field in the request body."""
    body = service.rejected(400, "PUT", "/v2/subscriptions", json=[{"endpoint-color": "red"}])
    assert "endpoint-color" in body["message"] + str(body["fields"])


@pytest.mark.parametrize("content", ["", "{", "[1", "\x00"])
def test_a_malformed_body_is_rejected(service: Service, content: str) -> None:
    """The error body follows wire.md 0."""
    service.rejected(
        400, "PUT", "/v2/subscriptions", content=content.encode(), headers={"Content-Type": "application/json"}
    )


def test_each_response_has_a_request_id_of_its_own(service: Service) -> None:
    """``X-Request-ID`` is present on every response."""
    seen = {service.call("GET", "/v3/devices").headers["X-Request-ID"] for _ in range(3)}
    assert len(seen) == 3
