"""The checked-in description of the API is what the server offers."""

import json

from tools.make_openapi_docs import PLACE, make_openapi_docs


def test_openapi_description_is_up_to_date() -> None:
    assert PLACE.read_text() == make_openapi_docs(), "run `make docs`"


def test_every_answer_and_refusal_is_described() -> None:
    described = json.loads(PLACE.read_text())
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            assert operation["description"], (method, path)
            assert operation["responses"]["default"], (method, path)
    assert set(described["components"]["schemas"]["ErrorView"]["properties"]) == {
        "code",
        "what",
        "where",
        "fix",
        "fields",
    }
