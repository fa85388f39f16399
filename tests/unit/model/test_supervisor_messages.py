"""What agent and supervisor say to each other: the lines that earlier versions write and read."""

import json

import pytest

from drumbeat.model import supervisor
from drumbeat.model.supervisor import (
    Adopt,
    LeaveNode,
    Probe,
    ProcessStart,
    Retire,
    SessionStart,
    StartRound,
    StartSessions,
    StopRound,
    SupervisedExit,
    SupervisorRequest,
    SupervisorState,
    SupervisorTimeouts,
)

RANK = ProcessStart(("/bin/bash", "-c", "true"), "/a/code", "/a/0.log", {"A": "1"}, rank=3, role="worker", joins="/s")
RANK_LINE = (
    '{"argv":["/bin/bash","-c","true"],"cwd":"/a/code","log":"/a/0.log","env":{"A":"1"},'
    '"rank":3,"role":"worker","joins":"/s"}'
)
LINES = [
    (SupervisorTimeouts(600.0, 30.0), '{"do":"patience","lost_after_s":600.0,"grace_s":30.0}'),
    (
        StartRound(2, (RANK,)),
        f'{{"do":"start","round":2,"ranks":[{RANK_LINE}],"starter":null,"standbys":null,"services":[]}}',
    ),
    (
        StartRound(2, (), RANK),
        f'{{"do":"start","round":2,"ranks":[],"starter":{RANK_LINE},"standbys":null,"services":[]}}',
    ),
    (
        StartSessions(2, (SessionStart("s", 3, ("ls",), "/l", ("A",)),)),
        '{"do":"sessions","round":2,"sessions":[{"id":"s","rank":3,"argv":["ls"],"log":"/l","left_out":["A"]}]}',
    ),
    (StopRound(2, 1.5), '{"do":"stop","round":2,"grace_s":1.5}'),
    (LeaveNode(0.0), '{"do":"leave","grace_s":0.0,"is_spare":false}'),
    (Retire("/c/spare", 600.0), '{"do":"retire","folder":"/c/spare","idle_s":600.0,"is_handover":false}'),
    (Adopt("/b/keeper"), '{"do":"adopt","folder":"/b/keeper"}'),
    (Probe(), '{"do":"ping"}'),
]
ENDED = SupervisedExit(3, None, 9, 1764108375.5, 1, is_stopped=True)
STATE = SupervisorState(71, 2, (0, 1), (ENDED, SupervisedExit(4, 1, None, 1.0, 2, launcher="mpirun ended")), over=False)
STATE_LINE = (
    '{"pid":71,"round":2,"running":[0,1],"exits":['
    '{"rank":3,"code":null,"signal":9,"at":1764108375.5,"order":1,"told":true,"error":""},'
    '{"rank":4,"code":1,"signal":null,"at":1.0,"order":2,"told":false,"error":"","launcher":"mpirun ended"}],'
    '"over":false,"stopping":false,"lost":false,"abandoned":false,"trouble":"","held_by":"","warm":[],"cold":"","standbys":[],'
    '"companions":[],"companion_exits":[],"restarted":false,"preparing":[]}'
)


@pytest.mark.parametrize(("request_", "line"), LINES)
def test_request_is_the_line_that_earlier_supervisors_read(request_: SupervisorRequest, line: str):
    assert supervisor.encode_request(request_) == f"{line}\n".encode()
    assert supervisor.decode_request(line.encode()) == request_


def test_every_kind_of_request_has_a_line_here():
    assert {type(request) for request, _ in LINES} == set(supervisor.REQUESTS.values())


def test_start_without_the_keys_that_came_later_is_understood():
    line = b'{"do":"start","round":1,"ranks":[{"rank":0,"argv":["x"],"cwd":"/","log":"/l","env":{}}]}'
    assert supervisor.decode_request(line) == StartRound(1, (ProcessStart(("x",), "/", "/l", {}, rank=0),))


@pytest.mark.parametrize(
    "line", ['{"do":"dance"}', "{}", '{"do":"stop","round":1}', '{"do":"stop","round":"1","grace_s":1}']
)
def test_request_of_another_version_that_is_not_known_is_ignored(line: str):
    assert supervisor.decode_request(line.encode()) is None


def test_lines_from_before_there_were_warm_pools_are_understood():
    start = f'{{"do":"start","round":2,"ranks":[{RANK_LINE}],"starter":null}}'
    assert supervisor.decode_request(start.encode()) == StartRound(2, (RANK,))
    state = STATE_LINE.replace(
        ',"warm":[],"cold":"","standbys":[],"companions":[],"companion_exits":[],"restarted":false,"preparing":[]', ""
    )
    assert supervisor.decode_state(state.encode()) == STATE


def test_order_to_leave_from_before_it_could_be_for_a_spare_supervisor_is_understood():
    assert supervisor.decode_request(b'{"do":"leave","grace_s":0.0}') == LeaveNode(0.0)


def test_key_of_a_newer_agent_is_ignored():
    assert supervisor.decode_request(b'{"do":"stop","round":1,"grace_s":2,"softly":true}') == StopRound(1, 2.0)


def test_state_is_the_line_that_earlier_agents_read():
    assert supervisor.encode_state(STATE) == f"{STATE_LINE}\n".encode()
    assert supervisor.decode_state(STATE_LINE.encode()) == STATE


def test_state_of_another_version_is_understood():
    message = {**json.loads(STATE_LINE), "mood": "calm"}
    del message["held_by"]
    assert supervisor.decode_state(json.dumps(message).encode()) == STATE


def test_state_that_is_none_is_refused():
    with pytest.raises(ValueError, match="pid"):
        supervisor.decode_state(b'{"round":1}')
