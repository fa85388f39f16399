"""Routes of which the models are made late."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from drumbeat.server.openapi_description import add_routes
from drumbeat.server.routing import LateRoute, new_router


@dataclass(frozen=True)
class Answer:
    """What the route below answers."""

    doubled: int


def make_app() -> tuple[FastAPI, LateRoute]:
    router = new_router("/numbers", tags=["numbers"])

    @router.get("/{number}", status_code=202)
    def double(number: int, *, minus: bool = False) -> Answer:
        return Answer(-2 * number if minus else 2 * number)

    app = FastAPI()
    add_routes(app, router)
    (route,) = router.routes
    assert isinstance(route, LateRoute)
    return app, route


def test_route_is_completed_by_its_first_request():
    app, route = make_app()
    client = TestClient(app)
    assert client.get("/numbers").status_code == 404
    assert client.post("/numbers/4").status_code == 405
    assert not route.is_complete
    answer = client.get("/numbers/4", params={"minus": "true"})
    assert (answer.status_code, answer.json()) == (202, {"doubled": -8})
    assert route.is_complete
    assert client.get("/numbers/four").status_code == 422


def test_description_of_the_api_completes_a_route_and_keeps_its_name():
    app, route = make_app()
    described = app.openapi()["paths"]["/numbers/{number}"]["get"]
    assert route.is_complete
    assert (described["operationId"], described["tags"]) == ("double", ["numbers"])
    assert set(described["responses"]) >= {"202"}


def test_unknown_attribute_of_a_late_route_is_an_error():
    _, route = make_app()
    with pytest.raises(AttributeError, match="has no 'colour'"):
        _ = route.colour


def test_threads_that_ask_at_once_all_get_the_complete_route():
    _, route = make_app()
    start = threading.Barrier(3)

    def asked(_: int) -> object:
        start.wait()
        return route.dependant

    with ThreadPoolExecutor(3) as pool:
        found = [*pool.map(asked, range(3))]
    assert found == [route.dependant] * 3
