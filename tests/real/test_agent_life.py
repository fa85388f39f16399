"""An attempt's whole life on real agents and supervisors, with ranks that need nothing but a shell."""

import contextlib
import hashlib
import io
import socket
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.model.agent import Order, Phase
from drumbeat.model.plan import InputPlan, OutputPlan
from tests.support.agent_gang import AgentGang, mentioning


def tar_of(files: dict[str, str], *members: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
        for member in members:
            archive.addfile(member)
    return buffer.getvalue()


@pytest.mark.feature("L1", "M1", "F6")
def test_two_nodes_of_two_ranks_live_from_enrolment_to_leaving(tmp_path):
    command = (
        "echo $RANK/$WORLD_SIZE at $NODE_RANK.$LOCAL_RANK to $MASTER_ADDR:$MASTER_PORT; echo r$RANK > outputs/$RANK"
    )
    with AgentGang(tmp_path, command, nodes=2, per_node=2) as gang:
        gang.run()
        gang.reach(Phase.ENDED)
        port = gang.server.said[0][-1].port
        for rank in range(4):
            line = f"{rank}/4 at {rank // 2}.{rank % 2} to 127.0.0.1:{port}\n"
            assert gang.server.log(rank, node=rank // 2).decode() == line
        for node in range(2):
            exits = gang.status(node).exits
            assert sorted((e.rank, e.code, e.signal, e.is_stopped) for e in exits) == [
                (2 * node, 0, None, False),
                (2 * node + 1, 0, None, False),
            ]
            assert [e.order for e in exits] == [1, 2]
            assert all(e.tail.startswith(f"{e.rank}/4") for e in exits)
        gang.order(Order.UPLOAD)
        gang.reach(Phase.UPLOADED)
        assert set(gang.server.shown[1]) == {"default/2", "default/3"}
        assert gang.server.shown[0]["default/1"] == {"size": 3, "sha256": hashlib.sha256(b"r1\n").hexdigest()}
        assert gang.leave() == [0, 0]
        assert mentioning(str(tmp_path)) == []


def test_an_agent_with_nothing_new_to_say_is_heard_before_its_node_would_be_lost(tmp_path):
    with AgentGang(tmp_path, "true", lost_after_s=1.5) as gang:
        gang.prepare()
        serial, heard = gang.status().serial, gang.server.calls[0]
        # Polls of the usual 20 s would take a minute for it.
        gang.server.wait_for(lambda: gang.server.calls[0] >= heard + 4, within_s=30)
        assert gang.status().serial == serial


def test_phases_come_in_order_and_serials_grow(tmp_path):
    with AgentGang(tmp_path, "true") as gang:
        gang.run()
        gang.reach(Phase.ENDED)
        gang.order(Order.UPLOAD)
        gang.reach(Phase.UPLOADED)
        said = gang.server.said[0]
        phases = list(Phase)
        assert [s.serial for s in said] == sorted({s.serial for s in said})
        assert [phases.index(s.phase) for s in said] == sorted(phases.index(s.phase) for s in said)


def test_code_inputs_and_outputs_are_where_the_command_looks(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a b.txt").write_text("in place")
    (tmp_path / "one.csv").write_text("copied")
    inputs = (
        InputPlan("folder", "uri_folder", f"file://{tmp_path}/data", "ro_mount"),
        InputPlan("one", "uri_file", f"file://{tmp_path}/one.csv", "download"),
        InputPlan("many", "uri_folder", f"file://{tmp_path}/data", "download"),
    )
    outputs = (OutputPlan("model", "uri_folder", "upload"),)
    command = (
        "cat train.txt ${{inputs.folder}}/'a b.txt' ${{inputs.one}} ${{inputs.many}}/'a b.txt'; "
        "echo m > ${{outputs.model}}/m; mkdir outputs/deep; echo d > outputs/deep/d; ln -s deep/d outputs/link; "
        "mkfifo outputs/pipe; ln -s .. outputs/deep/up; echo c > $DRUMBEAT_CHECKPOINT_DIR/c; ls -d $AZURE_ML_INPUT_one"
    )
    code = tar_of({"train.txt": "code ", "pkg/x.py": "", "outputs/old": "old"})
    with AgentGang(tmp_path, command, code=code, inputs=inputs, outputs=outputs) as gang:
        gang.run()
        gang.reach(Phase.ENDED)
        assert gang.server.log(0).decode() == f"code in placecopiedin place{gang.root()}/inputs/one/one.csv\n"
        gang.order(Order.UPLOAD)
        gang.reach(Phase.UPLOADED)
        assert sorted(gang.server.shown[0]) == ["default/deep/d", "default/link", "default/old", "model/m"]
        assert (tmp_path / "checkpoints0" / "c").read_text() == "c\n"


def symlink(name: str, target: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    return entry


def special(name: str, kind: bytes) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type = kind
    entry.linkname = "x"
    return entry


@pytest.mark.feature("X5")
@pytest.mark.parametrize(
    ("data", "says"),
    [
        (tar_of({"../evil": "x"}), "its name leads out of the folder"),
        (tar_of({"/evil": "x"}), "its name leads out of the folder"),
        (tar_of({}, symlink("l", "/etc")), "its target is outside"),
        (tar_of({}, symlink("a/l", "../../etc")), "its target is outside"),
        (tar_of({}, symlink("l", "d"), tarfile.TarInfo("l/x")), "it is below a link"),
        (tar_of({}, special("dev", tarfile.CHRTYPE)), "neither file nor folder nor symbolic link"),
        (tar_of({"x": ""}, special("hard", tarfile.LNKTYPE)), "neither file nor folder nor symbolic link"),
        (b"no tar at all" * 100, "can't be unpacked"),
    ],
)
def test_a_hostile_snapshot_is_refused_in_a_sentence_and_leaves_nothing(tmp_path, data, says):
    with AgentGang(tmp_path, "true", code=data) as gang:
        gang.start()
        gang.order(Order.PREPARE)
        gang.server.wait_for(lambda: gang.server.said and gang.status().error)
        assert says in gang.status().error
        assert gang.status().phase is Phase.STAGING
        assert not (gang.root() / "code").exists()
        assert not (tmp_path / "evil").exists()
        gang.order(Order.STOP)
        gang.reach(Phase.ENDED)
        assert gang.leave() == [0]


@contextlib.contextmanager
def given_half_of(whole: bytes, tmp_path: Path, times: int) -> Iterator[AgentGang]:
    """A gang that gets ready; of its code's snapshot only one half arrives at first."""
    with AgentGang(tmp_path, "wc -c train.txt", code=whole) as gang:
        gang.server.broken_snapshots = [whole[: len(whole) // 2]] * times
        gang.start()
        gang.order(Order.PREPARE)
        yield gang


def test_a_snapshot_that_arrives_broken_is_fetched_again(tmp_path):
    whole = tar_of({"train.txt": "x" * 100_000})
    with given_half_of(whole, tmp_path, 2) as gang:
        gang.run()
        gang.reach(Phase.ENDED)
        assert len(gang.server.asked_snapshots) == 3
        assert gang.server.log(0) == b"100000 train.txt\n"


def test_a_snapshot_that_arrives_broken_again_and_again_is_told(tmp_path):
    with given_half_of(tar_of({"train.txt": "x" * 100_000}), tmp_path, 100) as gang:
        gang.server.wait_for(lambda: gang.server.said and gang.status().error)
        assert "arrived damaged" in gang.status().error
        assert len(gang.server.asked_snapshots) > 1
        gang.order(Order.STOP)
        gang.reach(Phase.ENDED)
        assert gang.leave() == [0]


def test_a_launcher_that_the_agent_does_not_know_is_an_error_and_the_round_can_be_stopped(tmp_path):
    with AgentGang(tmp_path, "true", launcher="abacus") as gang:
        gang.prepare()
        gang.order(Order.RUN)
        gang.server.wait_for(lambda: [one for one in gang.status().exits if "determine its ranks" in one.error])
        gang.order(Order.STOP)
        gang.reach(Phase.ENDED)
        assert gang.leave() == [0]


def test_a_supervisor_that_can_not_come_up_is_an_error_and_the_round_can_be_stopped(tmp_path):
    with AgentGang(tmp_path, "true") as gang:
        (gang.root() / "keeper" / "keeper.sock" / "in the way").mkdir(parents=True)
        gang.start()
        gang.order(Order.PREPARE)
        gang.server.wait_for(lambda: gang.server.said and "the supervisor doesn't start" in gang.status().error)
        gang.order(Order.RUN)
        gang.reach(Phase.RUNNING)
        gang.order(Order.STOP)
        gang.reach(Phase.ENDED)
        assert gang.leave() == [0]


def test_a_missing_input_is_named_and_the_next_round_finds_it(tmp_path):
    inputs = (InputPlan("data", "uri_folder", f"file://{tmp_path}/data", "ro_mount"),)
    with AgentGang(tmp_path, "ls ${{inputs.data}}", inputs=inputs) as gang:
        gang.start()
        gang.order(Order.PREPARE)
        gang.server.wait_for(lambda: gang.server.said and gang.status().error)
        assert gang.status().error == (
            f"inputs.data: {tmp_path}/data doesn't exist on this node. "
            "Put it there, or name a path that every node of this compute has."
        )
        (tmp_path / "data").mkdir()
        gang.prepare(2)
        assert gang.status().error == ""


def test_a_rank_that_fails_is_told_at_once_and_the_others_are_stopped(tmp_path):
    command = "if [ $RANK = 1 ]; then for i in $(seq 30); do echo line $i; done; exit 3; fi; exec sleep 600"
    with AgentGang(tmp_path, command, per_node=2) as gang:
        gang.run()
        gang.server.wait_for(lambda: gang.status().exits)
        assert gang.status().phase is Phase.RUNNING
        (failed,) = gang.status().exits
        assert (failed.rank, failed.code, failed.is_stopped) == (1, 3, False)
        assert failed.tail.split("\n") == [f"line {i}" for i in range(1, 31)]
        gang.order(Order.STOP)
        gang.reach(Phase.ENDED)
        stopped = gang.status().exits[1]
        assert (stopped.rank, stopped.code, stopped.signal, stopped.is_stopped) == (0, None, 15, True)


def test_a_command_that_can_not_be_started_is_an_error_of_its_rank(tmp_path):
    with AgentGang(tmp_path, "true", per_node=2) as gang:
        gang.prepare()
        (gang.root() / "code" / "outputs").unlink()
        (gang.root() / "code").rmdir()
        gang.order(Order.RUN)
        gang.reach(Phase.ENDED)
        exits = gang.status().exits
        assert [(e.rank, e.code) for e in exits] == [(0, 127), (1, 127)]
        assert exits[0].error == f"the folder {gang.root()}/code can't be entered: No such file or directory"


def test_rounds_follow_each_other_without_staging_again(tmp_path):
    with AgentGang(tmp_path, "echo round $DRUMBEAT_ROUND; touch here; ls") as gang:
        gang.run(1)
        gang.reach(Phase.ENDED, 1)
        gang.run(2)
        gang.reach(Phase.ENDED, 2)
        assert gang.server.log(0, round=2).decode() == "round 2\nhere\noutputs\n"
        assert [e.rank for e in gang.status().exits] == [0]
        gang.order(Order.STOP, 3)
        gang.reach(Phase.ENDED, 3)
        assert gang.status().exits == ()
        assert gang.leave() == [0]


@pytest.mark.feature("L1")
def test_the_held_port_is_free_for_a_rank_and_for_nobody_else(tmp_path):
    with AgentGang(tmp_path, "sleep 600") as gang:
        gang.prepare()
        port = gang.status().port
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(("", port))
        with socket.socket() as rank:
            rank.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            rank.bind(("", port))
            rank.listen()
            socket.create_connection(("127.0.0.1", port)).close()


def test_a_second_agent_of_the_same_node_leaves(tmp_path):
    with AgentGang(tmp_path, "true") as gang:
        gang.prepare()
        first = gang.agents[0]
        gang.start()
        assert gang.agents[0].wait(120) == 75
        gang.agents[0] = first
        assert gang.leave() == [0]
