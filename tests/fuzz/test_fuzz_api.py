"""The API under input made from its own description: never a defect of ours, always the declared shape."""

import os
import time
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error, response_schema_conformance, status_code_conformance

from tests.faces.api_house import BEARER, House, house_in

SECONDS = float(os.environ.get("DRUMBEAT_FUZZ_S", "4"))
CHECKS = [not_a_server_error, status_code_conformance, response_schema_conformance]
NOT_CALLED = {"follow", "watch_jobs", "stop", "sync"}
"""Streams that don't end, the server's own end, and what waits: these have tests of their own."""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house_in(tmp_path_factory.mktemp("house")) as there:
        there.submit("known")
        yield there


def test_whatever_is_asked_is_answered_as_the_description_says(house: House) -> None:
    schema = schemathesis.openapi.from_dict(house.http.get("/api/v1/openapi.json").json())
    operations = [result.ok() for result in schema.get_all_operations()]
    chosen = [one for one in operations if one.definition.raw["operationId"] not in NOT_CALLED]
    assert len(chosen) >= 15
    end = time.monotonic() + SECONDS
    tries = dict.fromkeys((one.label for one in chosen), 0)
    seed = 0
    while time.monotonic() < end or not all(tries.values()):
        for operation in chosen:
            for mode in GenerationMode:
                tries[operation.label] += ask(house, operation.as_strategy(generation_mode=mode), seed)
        seed += 1


def ask(house: House, strategy: Any, seed: int) -> int:
    """Some cases of one operation, the same for the same seed; how many."""
    asked = 0
    secret = house.engine.gangs["known.1"].node_secret(0)

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=3, database=None, deadline=None, phases=[Phase.generate], derandomize=False,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @hypothesis.given(case=strategy)
    def once(case: Any) -> None:
        nonlocal asked
        asked += 1
        is_agents = case.operation.path.startswith("/agent/")
        if is_agents and asked % 2:
            # Else the first look at the secret is the last that anything is read of it.
            case.path_parameters |= {"job": "known", "attempt": 1, "node": 0}
        headers = {"Authorization": f"Bearer {secret}"} if is_agents else BEARER
        response = case.call(base_url=house.url, headers=headers, timeout=20)
        case.validate_response(response, checks=CHECKS)

    once()
    return asked
