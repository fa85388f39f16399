"""The server killed again and again under load: jobs in every phase, none lost, none doubled.

DRUMBEAT_LOAD_JOBS=200 makes it long.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections import Counter
from pathlib import Path

import pytest

from drumbeat import Client
from drumbeat.protocol.errors import ConflictError, StorageError

from .house import House, until

JOBS = int(os.environ.get("DRUMBEAT_LOAD_JOBS", "36"))
SENDERS = 3
KINDS = ("exit 0", "sleep 0.2", "exit 3", "sleep 300")
"""The last kind is canceled by the one who sent it."""


class Sender(threading.Thread):
    """A person with a program of their own, who knows which jobs were taken in."""

    def __init__(self, house: House, number: int) -> None:
        super().__init__()
        self.house, self.number = house, number
        self.sent: dict[str, str] = {}
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with Client(home=self.house.home) as client:
                for count in range(JOBS // SENDERS):
                    self.send(client, KINDS[count % len(KINDS)], count)
        except Exception as error:  # noqa: BLE001 - raised where the sender is joined
            self.error = error

    def has_heard(self, before: int) -> bool:
        """Whether a server that was started since has taken in one of its jobs; nobody waits for one that is done.

        before: those that it had sent when the one before was killed, whose last answer may have been on its way.
        """
        return len(self.sent) > before + 1 or not self.is_alive()

    def send(self, client: Client, kind: str, count: int) -> None:
        mark = self.house.folder / "marks" / f"{self.number}-{count}"
        document = {
            "command": f"echo ran >> {mark}; {kind}",
            "drumbeat": {"environment": "current", "max_retries": 0},
        }
        name = client.submit(document).name
        self.sent[name] = kind
        if kind == KINDS[-1]:
            client.cancel(name)


@pytest.mark.feature("F5")
@pytest.mark.timeout(max(300, 60 + 10 * JOBS))
def test_a_server_that_is_killed_under_load_loses_nothing_and_doubles_nothing(own_house: House):
    house = own_house
    (house.folder / "marks").mkdir()
    house.client.status()
    senders = [Sender(house, number) for number in range(SENDERS)]
    for one in senders:
        one.start()
    heard = dict.fromkeys(senders, 0)
    for part in (1, 2, 3):
        until(lambda part=part: sum(len(one.sent) for one in senders) >= part * JOBS // 4, what="the sending")
        # A call is sent twice, and not three times.
        until(lambda: all(one.has_heard(heard[one]) for one in senders), what="an answer to each since the last time")
        house.server().kill()
        heard.update({one: len(one.sent) for one in senders})
    for one in senders:
        one.join(120)
        assert one.error is None
    sent = {name: kind for one in senders for name, kind in one.sent.items()}
    assert len(sent) == JOBS
    until(lambda: len(house.client.list(limit=2 * JOBS)) == JOBS)
    house.server().kill()
    for name in sent:
        assert house.client.wait(name, 120) is not None
    check(house, sent)


def check(house: House, sent: dict[str, str]) -> None:
    jobs = {job.name: job for job in house.client.list(limit=2 * len(sent))}
    assert jobs.keys() == sent.keys(), "each is there once"
    for name, kind in sent.items():
        expected = {"exit 3": "failed", KINDS[-1]: "canceled"}.get(kind, "completed")
        assert (jobs[name].state, jobs[name].attempt <= 1) == (expected, True), jobs[name].sentence
        lines = house.client.story(name)
        assert [line.n for line in lines] == list(range(1, len(lines) + 1))
        assert Counter(line.state for line in lines)[expected] == 1
    marks = {mark.name: mark.read_text() for mark in (house.folder / "marks").iterdir()}
    assert set(marks.values()) <= {"ran\n", ""}, "no rank ran twice"
    silent = {KINDS[int(name.split("-")[1]) % len(KINDS)] for name, text in marks.items() if not text}
    assert silent <= {KINDS[-1]}, "only one that is canceled can end before its first word"
    assert len(marks) >= sum(kind != KINDS[-1] for kind in sent.values())
    until(lambda: not any(compute.held for compute in house.client.computes()), what="giving the slots back")
    until(lambda: not list((house.home / "nodes").glob("*/*")), what="cleaning up")


@pytest.mark.feature("F10")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small disk")
def test_on_a_full_disk_a_job_is_refused_whole_or_taken_in_whole(own_house: House):
    house = own_house
    house.home.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", house.home], check=True)
    try:
        house.client.submit({"name": "before", "command": "true"})
        assert house.client.wait("before", 60)
        ballast = house.home / "ballast"
        taken = fill_and_submit(house, ballast)
        assert taken < 2000
        house.server().kill()
        ballast.unlink()
        house.client.submit({"name": "after", "command": "true"})
        names = {job.name for job in house.client.list(limit=10_000)}
        assert names == {"before", "after", *(f"full-{n}" for n in range(taken))}
        ended = house.client.wait("after", 60)
        assert ended is not None
        assert ended.state == "completed"
    finally:
        house.close()
        subprocess.run(["umount", "-l", house.home], check=True)


def fill_and_submit(house: House, ballast: Path) -> int:
    """Submits until the full disk refuses; gives how many were taken in before."""
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(1 << 12)):
                pass
        except OSError:
            pass
    for n in range(2000):
        # As large as a job may be: what room the database still has is soon used up.
        document = {"name": f"full-{n}", "command": "true", "description": "x" * 100_000, "tags": {"n": str(n)}}
        try:
            house.client.submit({**document, "compute": "local"})
        except StorageError as error:
            assert "the disk is full" in str(error)  # noqa: PT017 - how often it succeeds before isn't known
            return n
        with pytest.raises(ConflictError):
            house.client.submit(document)
    raise AssertionError("the full disk took everything")
