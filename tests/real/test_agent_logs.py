"""Logs on their way from the rank to the server: whole, in order, whatever is written and however little is taken."""

import random
from urllib.parse import unquote

import pytest

from drumbeat.model.agent import Phase
from drumbeat.node.logs.failure_excerpt import failure_excerpt
from drumbeat.node.logs.sender import PIECE, GrowingLog
from tests.support.agent_gang import AgentGang

pytestmark = pytest.mark.feature("M1")


def send_all(gang: AgentGang) -> bytes:
    gang.run()
    gang.reach(Phase.ENDED)
    return gang.server.log(0)


def test_a_big_log_on_one_line_arrives_whole(tmp_path):
    with AgentGang(tmp_path, "head -c 100000000 /dev/zero | tr '\\0' x") as gang:
        assert send_all(gang) == b"x" * 100_000_000
        (ended,) = gang.status().exits
        assert ended.tail == "x" * 4096


def test_a_binary_log_arrives_as_it_is(tmp_path):
    with AgentGang(tmp_path, "head -c 3000000 /dev/urandom | tee copy") as gang:
        assert send_all(gang) == (gang.root() / "code" / "copy").read_bytes()


def test_a_fast_log_arrives_in_order(tmp_path):
    with AgentGang(tmp_path, "seq 500000") as gang:
        assert send_all(gang) == "".join(f"{i}\n" for i in range(1, 500_001)).encode()


def test_both_streams_are_one_log_and_stay_in_order(tmp_path):
    with AgentGang(tmp_path, "for i in 1 2 3; do echo out $i; echo err $i >&2; done") as gang:
        assert send_all(gang) == b"".join(b"out %d\nerr %d\n" % (i, i) for i in (1, 2, 3))


def test_a_rank_that_closes_its_streams_is_followed_to_its_end(tmp_path):
    with AgentGang(tmp_path, "echo a; exec >&- 2>&- <&-; sleep 0.2; exit 5") as gang:
        assert send_all(gang) == b"a\n"
        assert [e.code for e in gang.status().exits] == [5]


def test_a_log_that_its_own_command_cuts_goes_on_at_its_end(tmp_path):
    with AgentGang(
        tmp_path, "echo first; while [ ! -e go ]; do sleep 0.01; done; echo cut > /dev/stderr; echo on"
    ) as gang:
        gang.run()
        gang.server.wait_for(lambda: gang.server.log(0) == b"first\n")
        (gang.root() / "code" / "go").touch()
        gang.reach(Phase.ENDED)
        assert gang.server.log(0) == b"first\ncut\non\n"


class MoodyServer:
    """Takes some of what it is given, forgets some of what it had."""

    def __init__(self, seed: int) -> None:
        self.had = bytearray()
        self.chance = random.Random(seed)

    def put(self, path: str, offset: int, data: bytes) -> int:
        assert unquote(path) == "logs/x"
        if offset <= len(self.had):
            taken = data[len(self.had) - offset :]
            self.had += taken[: self.chance.randint(1, 50)]
        if self.chance.random() < 0.1:
            del self.had[self.chance.randint(0, len(self.had)) :]
        return len(self.had)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_server_takes_or_forgets_it_has_the_log_in_the_end(tmp_path, seed):
    server, written = MoodyServer(seed), b""
    log = GrowingLog(str(tmp_path / "x"), "logs/x")
    with (tmp_path / "x").open("ab", buffering=0) as file:
        for step in range(200):
            if step < 100 and server.chance.random() < 0.5:
                piece = server.chance.randbytes(server.chance.randint(0, 60))
                file.write(piece)
                written += piece
            try_to_send(log, server)
    server.chance = Calm()
    while try_to_send(log, server):
        pass
    assert server.had == written
    log.close()


class Calm(random.Random):
    """Takes 50, forgets nothing."""

    def randint(self, a: int, b: int) -> int:
        return b

    def random(self) -> float:
        return 1.0


def try_to_send(log: GrowingLog, server: MoodyServer) -> bool:
    from drumbeat.model.errors import UnreachableError

    try:
        return log.send_piece(server)  # type: ignore[arg-type]
    except UnreachableError:
        return True


def test_a_new_sender_takes_up_where_the_old_one_was(tmp_path):
    server = MoodyServer(0)
    server.chance = Calm()
    (tmp_path / "x").write_bytes(bytes(range(200)))
    for _ in range(3):
        log = GrowingLog(str(tmp_path / "x"), "logs/x")
        assert log.send_piece(server)  # type: ignore[arg-type]
        log.close()
    assert server.had == bytes(range(150))


def test_lines_of_a_fast_log_are_cut_only_where_one_is_longer_than_a_piece(tmp_path):
    """A server that is killed between two pieces has shown no half of a line."""
    taken: list[bytes] = []

    class Server:
        def put(self, path: str, offset: int, data: bytes) -> int:
            taken.append(data)
            return offset + len(data)

    long = b"x" * (PIECE + 7)
    (tmp_path / "x").write_bytes(b"".join(b"%d\n" % n for n in range(400_000)) + long + b"\nend")
    log, had = GrowingLog(str(tmp_path / "x"), "logs/x"), list[int]()
    while found := log.send_piece(Server()):  # type: ignore[arg-type]
        had.append(found)
    log.close()
    pieces = [one for one in taken if one]
    assert b"".join(pieces) == (tmp_path / "x").read_bytes()
    assert [one[-1:] for one in pieces] == [b"\n", b"\n", b"\n", b"x", b"d"]
    assert had == [PIECE] * 4 + [len(pieces[-1])], "it goes on at once while there is more"


def test_the_tail_of_a_log_that_is_not_there_is_empty(tmp_path):
    assert failure_excerpt(str(tmp_path / "none")) == ""
