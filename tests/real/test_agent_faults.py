"""Agents, supervisors and servers that die or misbehave: ranks go on, and nothing is lost, doubled or left behind."""

import http.server
import os
import signal
import threading
from pathlib import Path

import pytest

from drumbeat.model import home_socket
from drumbeat.model.agent import Order, Phase
from tests.support.agent_gang import AgentGang, mentioning
from tests.support.agent_server import HomeSocketServer

COUNTER = "i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo $RANK line $i; sleep 0.005; done"


def counted(rank: int) -> str:
    return "".join(f"{rank} line {i}\n" for i in range(1, 401))


@pytest.mark.feature("F5", "M1")
def test_an_agent_that_is_killed_is_replaced_and_no_line_is_lost_or_doubled(tmp_path):
    go = tmp_path / "go"
    with AgentGang(tmp_path, f"{COUNTER}; until [ -e {go} ]; do sleep 0.05; done", per_node=2) as gang:
        gang.run()
        gang.server.wait_for(lambda: gang.server.log(0))  # RUNNING is said when the supervisor has been asked.
        supervisor = gang.supervisor()
        for lines in (20, 150):
            gang.server.wait_for(lambda lines=lines: gang.server.log(0).count(b"\n") > lines)
            gang.kill_agent()
            before = len(gang.server.said[0])
            gang.start()
            gang.server.wait_for(lambda before=before: len(gang.server.said[0]) > before)
            assert gang.status().phase is Phase.RUNNING
            assert gang.supervisor() == supervisor
        go.touch()
        gang.reach(Phase.ENDED)
        assert [gang.server.log(rank).decode() for rank in (0, 1)] == [counted(0), counted(1)]
        assert [(e.code, e.is_stopped) for e in gang.status().exits] == [(0, False)] * 2
        assert gang.leave() == [0]


@pytest.mark.feature("F5")
def test_a_round_that_ends_without_an_agent_is_told_by_the_next_one(tmp_path):
    with AgentGang(tmp_path, "echo a; sleep 0.3; echo b; exit 4") as gang:
        gang.run()
        gang.kill_agent()
        gang.server.wait_for(lambda: not any(b"sleep" in _cmdline(pid) for pid in mentioning(str(tmp_path))))
        gang.start()
        gang.reach(Phase.ENDED)
        assert [e.code for e in gang.status().exits] == [4]
        assert gang.server.log(0) == b"a\nb\n"


def _cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.feature("F5", "M1")
def test_a_server_that_is_away_for_a_while_is_not_noticed_by_the_ranks(tmp_path):
    with AgentGang(tmp_path, COUNTER, per_node=2) as gang:
        gang.run()
        gang.server.wait_for(lambda: gang.server.log(0).count(b"\n") > 20)
        gang.server.go_down()
        log = gang.root() / "logs" / "1.1" / "0" / "0.log"
        gang.server.wait_for(lambda: log.read_text().count("\n") == 400)
        gang.server.come_up()
        gang.reach(Phase.ENDED)
        assert [gang.server.log(rank).decode() for rank in (0, 1)] == [counted(0), counted(1)]
        assert [(e.code, e.is_stopped) for e in gang.status().exits] == [(0, False)] * 2


def test_outputs_go_on_where_they_were_when_the_server_comes_back(tmp_path):
    with AgentGang(tmp_path, "head -c 20000000 /dev/urandom > outputs/big; echo x > outputs/small") as gang:
        gang.run()
        gang.reach(Phase.ENDED)
        gang.server.most_bytes = 100_000
        gang.order(Order.UPLOAD)
        gang.server.wait_for(lambda: len(gang.server.outputs.get((0, "default/big"), b"")) > 1_000_000)
        gang.server.go_down()
        gang.server.most_bytes = None
        gang.kill_agent()
        gang.server.come_up()
        gang.start()
        gang.reach(Phase.UPLOADED)
        big = (gang.root() / "outputs" / "default" / "big").read_bytes()
        assert gang.server.outputs[0, "default/big"] == big
        assert set(gang.server.shown[0]) == {"default/big", "default/small"}


def test_an_output_that_the_server_has_otherwise_is_sent_again(tmp_path):
    with AgentGang(tmp_path, "echo right > outputs/a") as gang:
        gang.run()
        gang.reach(Phase.ENDED)
        gang.server.outputs[0, "default/a"] = bytearray(b"wrong\n")
        gang.order(Order.UPLOAD)
        gang.reach(Phase.UPLOADED)
        assert gang.server.outputs[0, "default/a"] == b"right\n"


def test_an_output_that_shrinks_while_it_is_sent_does_not_hold_up_the_job(tmp_path):
    linked = tmp_path / "linked"
    linked.write_bytes(b"x" * 64_000_000)  # More than can be sent before it shrinks: the server takes little at a time.
    with AgentGang(tmp_path, f"ln -s {linked} outputs/link; echo x > outputs/small") as gang:
        gang.run()
        gang.reach(Phase.ENDED)
        gang.server.most_bytes = 100_000
        gang.order(Order.UPLOAD)
        gang.server.wait_for(lambda: len(gang.server.outputs.get((0, "default/link"), b"")) > 1_000_000)
        os.truncate(linked, 5)  # At once: writing it anew would leave it empty for an instant.
        gang.reach(Phase.UPLOADED)
        assert gang.server.outputs[0, "default/link"] == b"xxxxx"
        assert gang.server.outputs[0, "default/small"] == b"x\n"


def test_an_output_that_grows_while_it_is_sent_is_kept_as_it_was(tmp_path):
    linked = tmp_path / "linked"
    linked.write_bytes(bytes(5_000_000))
    with AgentGang(tmp_path, f"ln -s {linked} outputs/link; ln -s /proc/self/status outputs/proc") as gang:
        gang.run()
        gang.reach(Phase.ENDED)
        gang.server.most_bytes = 100_000
        gang.order(Order.UPLOAD)
        gang.server.wait_for(lambda: len(gang.server.outputs.get((0, "default/link"), b"")) > 1_000_000)
        with linked.open("ab") as file:
            file.write(b"more")
        gang.reach(Phase.UPLOADED)
        assert gang.server.shown[0]["default/link"]["size"] == 5_000_000
        assert gang.server.shown[0]["default/proc"]["size"] == 0


def test_outputs_that_can_not_be_kept_do_not_take_the_others_along(tmp_path):
    with AgentGang(tmp_path, "echo x > outputs/good; echo y > outputs/moody") as gang:
        gang.run()
        gang.reach(Phase.ENDED)
        gang.server.never_right = "default/moody"
        gang.order(Order.UPLOAD)
        gang.server.wait_for(lambda: gang.status().error)
        assert gang.status().phase is Phase.UPLOADING
        assert set(gang.server.shown[0]) == {"default/good"}
        assert gang.status().error.startswith(f"{gang.root()}/outputs/default/moody: an output could not be kept: ")
        assert gang.status().error.endswith("All others of this node are kept.")


def test_output_whose_name_is_not_utf8_is_kept_by_an_escaped_name(tmp_path):
    command = r"mkdir outputs/$'d\xfe'; echo x > outputs/good; echo y > outputs/$'bad\xff'; echo z > outputs/$'d\xfe'/z"
    with AgentGang(tmp_path, command) as gang:
        gang.run()
        gang.reach(Phase.ENDED)
        gang.order(Order.UPLOAD)
        gang.reach(Phase.UPLOADED)
        assert set(gang.server.shown[0]) == {"default/good", r"default/bad\xff", r"default/d\xfe/z"}


def test_a_job_that_takes_its_outputs_folder_away_is_told_so(tmp_path):
    with AgentGang(tmp_path, "rm -r ../outputs") as gang:
        gang.run()
        gang.reach(Phase.ENDED)
        gang.order(Order.UPLOAD)
        gang.server.wait_for(lambda: gang.status().error)
        said = f"{gang.root()}/outputs: an output could not be kept: No such file or directory"
        assert gang.status().error.startswith(said)


@pytest.mark.feature("F5", "F6")
def test_an_attempt_that_is_over_stops_its_ranks_and_sends_nothing_more(tmp_path):
    command = "trap 'echo asked; exit 0' TERM; echo up; sleep 600 & wait"
    with AgentGang(tmp_path, command, per_node=2) as gang:
        gang.run()
        gang.server.wait_for(lambda: gang.server.log(0) and gang.server.log(1))
        gang.server.break_off()
        assert gang.agents[0].wait(120) == 3
        assert mentioning(str(tmp_path)) == []
        assert (gang.root() / "logs" / "1.1" / "0" / "0.log").read_bytes() == b"up\nasked\n"
        assert gang.server.shown == {}


class _Stranger(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = b"<html>not found</html>"
        self.server.asked.set()  # type: ignore[attr-defined]
        self.send_response(404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_POST  # noqa: N815 (http.server's names)

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_another_program_at_the_servers_socket_does_not_end_the_attempt(tmp_path):
    with AgentGang(tmp_path, COUNTER) as gang:
        gang.run()
        gang.server.go_down()
        with HomeSocketServer(home_socket.socket_path(gang.server.url), _Stranger) as stranger:
            stranger.asked = threading.Event()  # type: ignore[attr-defined]
            thread = threading.Thread(target=stranger.serve_forever, kwargs={"poll_interval": 0.02})
            thread.start()
            assert stranger.asked.wait(120)  # type: ignore[attr-defined]
            stranger.shutdown()
            thread.join()
        gang.server.come_up()
        gang.reach(Phase.ENDED)
        assert gang.server.log(0).decode() == counted(0)
        assert [(e.code, e.is_stopped) for e in gang.status().exits] == [(0, False)]


@pytest.mark.feature("F6")
@pytest.mark.parametrize("is_agent_killed", [False, True])
def test_a_supervisor_that_is_killed_takes_everything_along_and_the_round_is_lost(tmp_path, is_agent_killed):
    command = "echo up; [ $RANK = 1 ] && exit 7; (setsid sleep 601 &); (trap '' TERM; sleep 602) & wait"
    with AgentGang(tmp_path, command, per_node=2) as gang:
        gang.run()
        gang.server.wait_for(lambda: gang.status().exits and gang.server.log(0))
        supervisor = gang.supervisor()
        if is_agent_killed:
            gang.kill_agent()
        os.kill(supervisor, signal.SIGKILL)
        if is_agent_killed:
            gang.start()
        gang.server.wait_for(lambda: gang.status().lost, within_s=60)
        gang.reach(Phase.ENDED)
        assert not any(b"sleep" in _cmdline(pid) for pid in mentioning(str(tmp_path)))
        assert [(e.rank, e.code) for e in gang.status().exits] == [(1, 7)]
        assert gang.server.log(0) == b"up\n"
        gang.run(2)
        assert not gang.status().lost


@pytest.mark.feature("F7")
def test_an_agent_that_the_machine_stops_gives_the_ranks_their_grace_and_goes(tmp_path):
    command = "trap 'echo saved; exit 0' TERM; echo up; sleep 600 & wait"
    with AgentGang(tmp_path, command) as gang:
        gang.run()
        gang.server.wait_for(lambda: gang.server.log(0))
        gang.agents[0].terminate()
        assert gang.agents[0].wait(120) == 143
        gang.server.wait_for(lambda: gang.status().exits)
        assert gang.server.log(0) == b"up\nsaved\n"
        assert [(e.code, e.is_stopped) for e in gang.status().exits] == [(0, True)]
        assert mentioning(str(tmp_path)) == []


def test_an_agent_whose_server_is_gone_leaves_on_sigterm_all_the_same(tmp_path):
    with AgentGang(tmp_path, "sleep 600") as gang:
        gang.prepare()
        gang.server.go_down()
        gang.agents[0].terminate()
        assert gang.agents[0].wait(120) == 143
