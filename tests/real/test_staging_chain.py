"""Nodes of a gang on machines of their own pass their inputs on: the store is read once."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.engines.netlab.lab import Lab, require_tools
from drumbeat.model.errors import EngineError
from drumbeat.model.input_listing import ListedFile
from drumbeat.node.inputs.cache.files import Files, name_of
from drumbeat.node.inputs.cache.partial_file import PIECE, Part, claim, piece_at, piece_count
from drumbeat.node.inputs.cache.small_file import Small, claim_small
from drumbeat.node.inputs.fetching.http_client import FetchTimeouts, Lines
from drumbeat.node.inputs.fetching.peer_client import PeerClient, PeerIdentity
from drumbeat.node.inputs.fetching.peer_server import DataServer
from tests.support.memory_data import Answer, MemoryData

from .depot import Depot, a_lab_depot, remote

pytestmark = [pytest.mark.feature("D5")]

BIG = os.urandom(20 << 20)
FILE = ListedFile("big", len(BIG), hashlib.sha256(BIG).hexdigest(), hashlib.sha256(BIG).hexdigest())
QUICK = FetchTimeouts(silent_s=0.3)


# --- in a lab: each node has a cache of its own -----------------------------------------------------------------
@pytest.fixture
def depot(tmp_path: Path) -> Iterator[Depot]:
    try:
        require_tools()
    except EngineError as error:
        pytest.skip(str(error))
    lab = Lab(tmp_path / "lab", "chn", 3)
    lab.up()
    try:
        with a_lab_depot(tmp_path, MemoryData(), lab) as depot:
            yield depot
    finally:
        lab.close()


SHOWS = "cat $(find ${{inputs.train}} -type f | LC_ALL=C sort) | sha256sum"


def shares_read(depot: Depot, content: dict[str, bytes]) -> float:
    """How often three nodes together read a folder of the store that no node has yet; each has all of it, as it is."""
    folder = next(iter(content)).partition("/")[0]
    depot.data.files.update(content)
    before = depot.data.sent
    depot.submit(folder, SHOWS, remote("train", folder), nodes=3)
    depot.ended(folder, 200)
    depot.completed(folder)
    whole = hashlib.sha256(b"".join(content[path] for path in sorted(content))).hexdigest()
    for rank in range(3):
        path = f"logs/1.1/{rank}/{rank}.log"
        assert depot.control.artifacts.open_file(folder, path).read_text().split()[0] == whole
    return (depot.data.sent - before) / sum(map(len, content.values()))


def assert_read_once(depot: Depot, *contents: dict[str, bytes]) -> None:
    """The first or another: an agent that a loaded machine doesn't let run for ten seconds is rightly left for the
    store by those after it.
    """
    shares: list[float] = []
    for content in contents:
        shares.append(shares_read(depot, content))
        if shares[-1] <= 1.1:
            return
    pytest.fail(f"of what has to be read, this was: {shares}")


@pytest.mark.feature("D9")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("tells_sha256", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_three_nodes_read_the_store_once(depot: Depot, tells_sha256: bool):
    depot.data.tells_sha256 = tells_sha256
    assert_read_once(depot, {"first/big": BIG}, {"second/big": os.urandom(len(BIG))})


def a_heap(folder: str) -> dict[str, bytes]:
    return {f"{folder}/{at % 7}/{at}": os.urandom(at * 11 % 3000) for at in range(500)}


@pytest.mark.timeout(600)
@pytest.mark.thorough
def test_three_nodes_read_very_many_small_files_once(depot: Depot):
    assert_read_once(depot, a_heap("first"), a_heap("second"))


# --- two ends on this machine -----------------------------------------------------------------------------------
@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(str(tmp_path / "data"))


@pytest.fixture
def serving(files: Files) -> Iterator[DataServer]:
    serving = DataServer(files, "127.0.0.1", "secret")
    serving.names = frozenset([name_of(FILE)])
    yield serving
    serving.close()


def chain_to(serving: DataServer, *, secret: str = "secret", timeouts: FetchTimeouts = QUICK) -> PeerClient:
    peer = {"address": "127.0.0.1", "data_port": serving.port, "cache": "other"}
    return PeerClient(PeerIdentity(1, "mine", secret), lambda: [peer, None], timeouts)


def ask(chain: PeerClient, number: int = 0) -> bytes | None:
    lines = Lines(QUICK)
    try:
        return chain.get(lines, name_of(FILE), piece_at(FILE.size, number), lambda: False)
    finally:
        lines.close()


def growing(files: Files) -> Part:
    part = claim(files, FILE)
    assert isinstance(part, Part)
    return part


def test_a_piece_of_a_growing_file_is_passed_on_as_soon_as_it_is_there(files: Files, serving: DataServer):
    part, chain = growing(files), chain_to(serving, timeouts=FetchTimeouts(silent_s=60))
    found: list[bytes | None] = []
    asking = threading.Thread(target=lambda: found.append(ask(chain, 1)))
    asking.start()
    part.write(PIECE, BIG[PIECE : 2 * PIECE])
    assert found == []
    part.have(1)
    asking.join(30)
    assert found == [BIG[PIECE : 2 * PIECE]]
    part.close()


def test_a_whole_file_is_passed_on(files: Files, serving: DataServer):
    part = growing(files)
    for number in range(piece_count(FILE.size)):
        offset, length = piece_at(FILE.size, number)
        part.write(offset, BIG[offset : offset + length])
        part.have(number)
    assert part.finish()
    last = piece_count(FILE.size) - 1
    assert ask(chain_to(serving), last) == BIG[last * PIECE :]


def test_a_node_that_gets_nowhere_is_left_for_the_store(files: Files, serving: DataServer):
    assert ask(chain_to(serving)) is None


def test_a_node_that_is_gone_is_left_for_the_store(files: Files):
    serving = DataServer(files, "127.0.0.1", "secret")
    serving.close()
    assert ask(chain_to(serving)) is None


def test_who_doesnt_know_the_secret_gets_nothing_and_nothing_of_theirs_is_taken(files: Files, serving: DataServer):
    part = growing(files)
    part.write(0, BIG[:PIECE])
    part.have(0)
    assert ask(chain_to(serving)) == BIG[:PIECE]
    assert ask(chain_to(serving, secret="guessed")) is None
    part.close()


def test_what_is_no_input_of_the_job_isnt_passed_on(files: Files, serving: DataServer):
    part = growing(files)
    part.write(0, BIG[:PIECE])
    part.have(0)
    serving.names = frozenset()
    assert ask(chain_to(serving)) is None
    part.close()


# --- small files, many at once --------------------------------------------------------------------------------
SMALL = [ListedFile(str(at), 5, hashlib.sha256(b"%05d" % at).hexdigest()) for at in range(5)]


def ask_files(chain: PeerClient) -> dict[str, bytes]:
    lines = Lines(QUICK)
    try:
        return chain.files(lines, {name_of(one): one.size for one in SMALL}, lambda: False)
    finally:
        lines.close()


def bring(files: Files, number: int) -> None:
    small = claim_small(files, SMALL[number])
    assert isinstance(small, Small)
    assert small.finish(b"%05d" % number)


def test_small_files_that_are_there_come_in_one_answer_and_the_others_dont_hold_them_up(
    files: Files, serving: DataServer
):
    serving.names = frozenset(name_of(one) for one in SMALL)
    for number in (1, 3):
        bring(files, number)
    chain = chain_to(serving, timeouts=FetchTimeouts(silent_s=60))
    assert ask_files(chain) == {name_of(SMALL[at]): b"%05d" % at for at in (1, 3)}
    for number in (0, 2, 4):
        bring(files, number)
    assert list(ask_files(chain)) == [name_of(one) for one in SMALL]


def test_small_files_are_waited_for_until_the_node_before_gets_nowhere(files: Files, serving: DataServer):
    serving.names = frozenset(name_of(one) for one in SMALL)
    assert ask_files(chain_to(serving)) == {}
    found: list[dict[str, bytes]] = []
    chain = chain_to(serving, timeouts=FetchTimeouts(silent_s=60))
    asking = threading.Thread(target=lambda: found.append(ask_files(chain)))
    asking.start()
    bring(files, 0)
    asking.join(30)
    assert found == [{name_of(SMALL[0]): b"00000"}]


def test_small_files_are_for_those_who_know_the_secret_and_of_the_jobs_inputs_alone(files: Files, serving: DataServer):
    bring(files, 0)
    assert ask_files(chain_to(serving)) == {}
    serving.names = frozenset([name_of(SMALL[0])])
    assert ask_files(chain_to(serving, secret="guessed")) == {}
    assert ask_files(chain_to(serving)) == {name_of(SMALL[0]): b"00000"}


def test_an_answer_that_was_changed_on_its_way_isnt_taken():
    with MemoryData() as stranger:
        stranger.spoil = lambda _asked: Answer(200, b"x" * PIECE, headers={"Drumbeat-Proof": "0" * 64})
        port = int(stranger.url.rpartition(":")[2])
        peer = {"address": "127.0.0.1", "data_port": port, "cache": "other"}
        chain = PeerClient(PeerIdentity(1, "mine", "secret"), lambda: [peer, None], QUICK)
        assert ask(chain) is None
        assert ask(chain, 1) is None
        assert len(stranger.asked) == 1, "it isn't believed again"


def test_a_node_with_the_same_cache_is_passed_over():
    chain = PeerClient(
        PeerIdentity(1, "mine", "secret"), lambda: [{"address": "x", "data_port": 1, "cache": "mine"}, None], QUICK
    )
    assert ask(chain) is None
