"""The eras of servers: which server agents obey, and which server learns that it was replaced."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from drumbeat.model.agent import Enrolment
from drumbeat.model.errors import RefusedError
from drumbeat.model.server_era import HEADER, era_number, era_text
from drumbeat.node.platform.server_era import heard_era, note_era
from drumbeat.server.access.era_guard import EraGuard, ServerEra
from drumbeat.server.home_copy import ERA, note_replaced, read_era, require_not_replaced

pytestmark = pytest.mark.feature("U4")

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
SYNC = "/agent/v1/j/1/0/sync"


async def answers_stale(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 410, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps({"code": "stale"}).encode()})


def ask(own: int, heard: str, path: str = SYNC) -> tuple[httpx.Response, list[int]]:
    """Returns what a server of an era answers an agent that has heard another, and which eras replaced the server."""
    replaced: list[int] = []
    app = EraGuard(answers_stale, ServerEra(own, KEY, replaced.append))

    async def once() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
            return await client.post(f"http://server{path}", headers={HEADER.encode(): heard.encode()} if heard else {})

    return asyncio.run(once()), replaced


def test_server_that_was_replaced_learns_it_and_gives_no_order() -> None:
    answer, replaced = ask(0, era_text(7, KEY))
    assert (answer.status_code, answer.json()["code"], replaced) == (503, "storage_away", [7])
    assert ask(6, era_text(7, KEY))[1] == [7]


@pytest.mark.parametrize(
    "heard",
    ["", era_text(7, OTHER_KEY), "9", "9.", "9." + "0" * 64, era_text(7, KEY).replace("7.", "8."), era_text(6, KEY),
     era_text(7, KEY)[:-1], "x" * 500, "-1.0", "٧.0"],
    ids=range(11),
)  # fmt: skip
def test_no_other_header_stops_a_server(heard: str) -> None:
    answer, replaced = ask(7, heard)
    assert (answer.status_code, answer.headers[HEADER], replaced) == (410, era_text(7, KEY), [])


def test_users_requests_and_homes_that_were_never_restored_have_no_era() -> None:
    assert ask(7, era_text(8, KEY), "/api/v1/jobs")[1] == []
    assert HEADER not in ask(0, "")[0].headers


def test_node_believes_no_earlier_era_than_it_has_heard_also_after_a_restart(tmp_path: Path) -> None:
    own = cast("Enrolment", SimpleNamespace(root=str(tmp_path)))
    first, later = era_text(5, KEY), era_text(9, KEY)
    assert (heard_era(own), note_era(own, ""), note_era(own, first), note_era(own, later)) == ("", True, True, True)
    assert (note_era(own, first), note_era(own, ""), note_era(own, later), heard_era(own)) == (
        False,
        False,
        True,
        later,
    )
    assert era_number((tmp_path / "era").read_text()) == 9


def test_home_that_was_replaced_starts_no_server(tmp_path: Path) -> None:
    require_not_replaced(tmp_path)
    assert read_era(tmp_path) == 0
    (tmp_path / ERA).write_text("1767225600\n")
    assert read_era(tmp_path) == 1767225600
    note_replaced(tmp_path, 1767225600)
    with pytest.raises(RefusedError, match=r"a server has replaced this one, from a backup .* 2026-01-01 00:00 UTC"):
        require_not_replaced(tmp_path)
