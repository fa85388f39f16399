"""Bodies of requests: how large and how slow they may be, and how much of them the server holds."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from drumbeat.server.access import request_sizes
from drumbeat.server.access.request_sizes import ELSEWHERE, KIB, MIB, BodyLimit, FairShare, IncomingBody, body_limit

pytestmark = pytest.mark.feature("X1")

Receive = Callable[[], Awaitable[dict[str, Any]]]


@pytest.mark.parametrize(
    ("address", "most"),
    [
        ("POST /api/v1/jobs", 4 * MIB),
        ("POST /api/v1/plan", 4 * MIB),
        ("POST /api/v1/components", 4 * MIB),
        ("POST /api/v1/environments", 4 * MIB),
        ("POST /api/v1/computes", 1 * MIB),
        ("PUT /agent/v1/j/1/0/logs/1.1/0/0.log", 4 * MIB),
        ("PUT /agent/v1/j/1/0/outputs/a/b", 4 * MIB),
        ("POST /agent/v1/j/1/0/sync", 4 * MIB),
        ("POST /agent/v1/j/1/0/metrics", 16 * MIB),
        ("POST /agent/v1/j/1/0/outputs/commit", 256 * MIB),
        ("POST /api/v1/storage/file", ELSEWHERE),
        ("POST /api/v1/stop", ELSEWHERE),
        ("POST /api/v1/jobs/x/cancel", ELSEWHERE),
    ],
)
def test_body_that_is_read_into_memory_has_the_limit_of_its_address(address: str, most: int) -> None:
    assert body_limit(*address.split()) == BodyLimit(most)


@pytest.mark.parametrize(
    ("address", "most"),
    [
        ("PUT /api/v1/snapshots/abc", 1088 * MIB),
        ("PUT /api/v1/storage/file", 16 << 40),
        ("PUT /mlflow/api/2.0/mlflow-artifacts/artifacts/r/artifacts/m", 16 << 40),
        ("PUT /agent/v1/j/1/0/mlflow/api/2.0/mlflow-artifacts/artifacts/r/artifacts/m", 16 << 40),
    ],
)
def test_streamed_upload_takes_no_memory(address: str, most: int) -> None:
    assert body_limit(*address.split()) == BodyLimit(most, is_held=False)


@pytest.mark.parametrize("address", ["POST /agent/v1/j/1/0/tunnels/t/up", "POST /api/v1/jobs/j/sessions/s/input"])
def test_tunnel_may_be_silent(address: str) -> None:
    assert not body_limit(*address.split()).is_timed


def pieces(*sizes: int, ends: bool = True) -> Receive:
    """Receives pieces of these sizes; without an end, waits for ever for another one."""
    left = list(sizes)

    async def receive() -> dict[str, Any]:
        if not left:
            await asyncio.Event().wait()
        size = left.pop(0)
        return {"type": "http.request", "body": bytes(size), "more_body": bool(left) or not ends}

    return receive


def read(receive: Receive, limit: BodyLimit, held: FairShare, sender: str = "job a") -> IncomingBody:
    async def whole() -> IncomingBody:
        body = IncomingBody(receive, limit, sender, held)
        while (await body.receive())["more_body"]:
            pass
        return body

    return asyncio.run(whole())


def refusal(receive: Receive, limit: BodyLimit, held: FairShare, sender: str = "job a") -> tuple[int, str]:
    with pytest.raises(HTTPException) as refused:
        read(receive, limit, held, sender)
    return refused.value.status_code, refused.value.detail


@pytest.mark.feature("D10", "F10")
def test_body_whose_next_piece_does_not_come_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_sizes, "SILENCE_TIMEOUT_S", 0.01)
    said = refusal(pieces(5, ends=False), BodyLimit(100), FairShare(1000))
    assert said == (408, "the body came too slowly: 5 bytes in 0 s")


def test_body_that_drips_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_sizes, "SILENCE_TIMEOUT_S", 0.05)

    async def drip() -> dict[str, Any]:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"x", "more_body": True}

    status, sentence = refusal(drip, BodyLimit(1 << 40, is_held=False), FairShare(1))
    assert (status, sentence[:25]) == (408, "the body came too slowly:")


def test_body_larger_than_its_limit_is_ended() -> None:
    said = refusal(pieces(60, 60), BodyLimit(100), FairShare(1000))
    assert said == (413, "the body is larger than the 100 bytes that this address takes")


def test_sender_holds_half_of_the_memory_and_leaves_room_for_others() -> None:
    held = FairShare(400 * KIB)
    mine = read(pieces(100 * KIB, 100 * KIB), BodyLimit(MIB), held)
    assert refusal(pieces(1), BodyLimit(MIB), held)[0] == 503
    assert read(pieces(100 * KIB), BodyLimit(MIB), held, "job b")
    mine.forget()
    assert read(pieces(100 * KIB), BodyLimit(MIB), held)


def test_memory_for_bodies_is_free_again_after_each_request() -> None:
    held = FairShare(1000)
    for _ in range(5):
        read(pieces(300), BodyLimit(MIB), held).forget()
    assert held.free == 1000
