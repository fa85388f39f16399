"""Small pure parts of the agent: waiting, tails, names in archives, which answers end an attempt."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from drumbeat.model.agent import LEFT_OUT, Enrolment, RankExit
from drumbeat.model.errors import (
    DrumbeatError,
    NotFoundError,
    StaleError,
    StorageError,
    UnauthorizedError,
    UnreachableError,
)
from drumbeat.model.plan import Plan
from drumbeat.node.agent.status_reporter import poll_s
from drumbeat.node.launchers.mpi.launcher import correct_exit
from drumbeat.node.logs.failure_excerpt import failure_excerpt, last_lines
from drumbeat.node.logs.sender import pause_s
from drumbeat.node.platform.request_backoff import Backoff
from drumbeat.node.platform.server_link import ServerLink
from drumbeat.node.platform.snapshot_archive import is_inside

PLAN = Plan("j", "e", "pytorch", 1, 1, "true", ())
LINK = ServerLink(Enrolment("j", 1, 0, ("unix:/none/server.sock",), "s", "/r", "/c", PLAN))


def test_waits_double_up_to_the_most_and_start_small_again():
    backoff = Backoff(0.1, 5.0)
    waits = [backoff.next_s() for _ in range(8)]
    for wait, most in zip(waits, (0.1, 0.15, 0.225, 0.3375, 0.50625, 0.759375, 1.13906, 1.7086), strict=True):
        assert most * 0.75 <= wait <= most
    assert max(backoff.next_s() for _ in range(9)) <= 5.0
    backoff.reset()
    assert backoff.next_s() <= 0.1


@pytest.mark.parametrize(("lost_after_s", "poll"), [(600, 20), (60, 20), (9, 3), (0.2, 0.5), (0, 0.5)])
def test_an_agent_is_heard_three_times_before_its_node_would_be_lost(lost_after_s: float, poll: float):
    assert poll_s(lost_after_s) == poll


@pytest.mark.feature("C13")
@pytest.mark.parametrize(
    ("nodes", "lost_after_s", "poll"), [(64, 600, 20), (1024, 600, 30), (9000, 600, 50), (9000, 9, 3)]
)
def test_agents_of_large_gangs_poll_more_rarely_and_never_too_rarely(nodes: int, lost_after_s: float, poll: float):
    assert poll_s(lost_after_s, nodes) == poll


def test_a_tail_is_the_last_sixty_lines_whatever_they_hold():
    assert last_lines(b"".join(b"%d\n" % i for i in range(99))).split("\n") == [str(i) for i in range(39, 99)]
    assert last_lines(b"\xff\xfea\x1b[31mred\n") == "\ufffd\ufffda\x1b[31mred"
    assert last_lines(b"") == ""


RAISED = 'Traceback (most recent call last):\n  File "t.py", line 3, in f\n    raise OSError("x")\nOSError: x\n'
MORE = "".join(f"op {n}\n" for n in range(200))


@pytest.mark.parametrize(
    ("text", "far"),
    [
        ("epoch 3\n" + RAISED + MORE, RAISED),
        (RAISED.replace("Traceback", "[rank1]: Traceback").replace("\nOS", "\n[rank1]: OS") + MORE, "[rank1]: Tr"),
        ("ERROR:root:no cache\n" + RAISED + MORE, ""),
        ("Exception in thread Thread-1 (read):\n" + RAISED + MORE, ""),
        (RAISED + MORE * 70, ""),
        (MORE + RAISED, ""),
        (RAISED[:40] + "\n" + "\n".join(" " * 8 for _ in range(99)), ""),
        ("", ""),
        (RAISED + MORE + "Exception ignored in: <function f>\n" + RAISED, RAISED),
        (RAISED + MORE + "ERROR:root:no cache\n" + RAISED + MORE, RAISED),
    ],
    ids=[
        "raised",
        "of-a-rank",
        "logged",
        "of-a-thread",
        "far-up",
        "at-the-end",
        "cut-off",
        "nothing",
        "cleaned-up-after",
        "logged-after",
    ],
)
def test_uncaught_traceback_precedes_the_end(tmp_path: Path, text: str, far: str):
    log = tmp_path / "0.log"
    log.write_text(text)
    end = failure_excerpt(str(log))
    assert end == last_lines(text.encode()[-4096:])
    find = failure_excerpt(str(log), is_raised=True)
    assert find.endswith(end)
    assert find.startswith(f"{far.strip()}\n{LEFT_OUT}\n" if far.endswith("\n") else far)
    assert (LEFT_OUT in find) == bool(far)


@pytest.mark.parametrize(("world_size", "seconds"), [(1, 0.025), (4, 0.025), (100, 0.1), (5000, 1.0)])
def test_a_big_job_sends_its_logs_less_often(world_size, seconds):
    assert pause_s(world_size) == seconds


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        ("a", True),
        ("a/b.c", True),
        ("./a", True),
        ("a/", True),
        ("..a", True),
        ("", True),
        ("..", False),
        ("a/../b", False),
        ("a/..", False),
        ("/a", False),
        ("a\0b", False),
        ("n" * 5000, False),
    ],
)
def test_names_that_stay_inside(name, inside):
    assert is_inside(name) is inside


@pytest.mark.parametrize(
    ("status", "error", "is_sync", "becomes"),
    [
        (410, StaleError("x"), True, StaleError),
        (410, StaleError("x"), False, StaleError),
        (404, NotFoundError("x"), True, StaleError),
        (404, NotFoundError("x"), False, NotFoundError),
        (401, UnauthorizedError("x"), True, StaleError),
        (507, StorageError("x"), True, StorageError),
        (500, DrumbeatError("x"), True, DrumbeatError),
    ],
)
def test_which_answers_end_the_attempt(status, error, is_sync, becomes):
    find = LINK._error(status, json.dumps(error.as_dict()).encode(), is_sync=is_sync)
    assert type(find) is becomes
    assert find.what == "x"


@pytest.mark.parametrize("body", [b"<html>404</html>", b"", b"[]", b"null", b'"text"'])
def test_a_stranger_at_the_servers_port_is_no_server(body):
    assert type(LINK._error(404, body, is_sync=True)) is UnreachableError


@pytest.mark.feature("L3")
def test_a_rank_that_had_mpich_abort_has_not_ended_well():
    said = "Abort(3) on node 1 (rank 1 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 3) - process 1\n"
    well = RankExit(1, 0, None, 1.0, 1, tail=said)
    assert correct_exit(well).code == 3
    assert correct_exit(replace(well, tail=said.replace("Abort(3)", "Abort(0)"))).code == 1
    assert correct_exit(replace(well, tail="epoch 3\n")).code == 0
    assert correct_exit(replace(well, code=15)).code == 15
    killed_at_exit = correct_exit(replace(well, code=None, signal=15, end_mark="exiting"))
    assert (killed_at_exit.is_failure, killed_at_exit.signal) == (True, 15)
