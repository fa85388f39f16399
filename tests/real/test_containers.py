"""Jobs in containers: real Podman, and an image of a few megabytes that is made here."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from drumbeat.model.agent import Order, Phase
from drumbeat.model.api.jobs import JobView
from drumbeat.model.plan import Container
from tests.support.agent_gang import AgentGang
from tools.slurmlab import SlurmLab

from .boxes import IMAGE, PYTHON_IMAGE, a_podman, image_with_python
from .endpoints import SCRIPT, Endpoint
from .guard import guarded
from .house import DRUMBEAT, House, a_house, line_of, until
from .places import slurm

pytestmark = [pytest.mark.feature("E1")]


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with a_podman(tmp_path_factory.mktemp("podman")) as variables:
        yield variables


@pytest.fixture(scope="module")
def boxed(podman: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in podman.items():
            patch.setenv(name, value)  # The server that the house starts passes them on.
        with a_house(tmp_path_factory.mktemp("boxed")) as house:
            yield house
            assert left(podman) == ""


def left(podman: dict[str, str]) -> str:
    """Containers that there are still."""
    listed = ["podman", "ps", "--all", "--quiet"]
    return subprocess.run(listed, env={**os.environ, **podman}, capture_output=True, text=True, check=True).stdout


def start(house: House, script: str, image: str = IMAGE, **keys: str) -> JobView:
    house.script(script, file="t.sh")
    path = house.job_file(
        **{
            "code": ".",
            "command": "exec bash t.sh",
            "environment": f"{{image: '{image}'}}",
            "distribution": "{type: pytorch, process_count_per_instance: 2}",
            "resources": "{instance_count: 2}",
            "drumbeat": "{max_retries: 0, grace_s: 10}",
            **keys,
        }
    )
    return house.client.submit(path)


def ended(house: House, job: JobView) -> JobView:
    found = house.client.wait(job.name, 120)
    assert found is not None
    return found


def test_ranks_have_the_files_of_the_image_and_the_job_and_the_network_of_the_node(boxed: House, tmp_path: Path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "x.txt").write_text("digits")
    script = """
echo "rank $RANK of $WORLD_SIZE at $MASTER_ADDR, $(cat "$AZURE_ML_INPUT_data/x.txt"), $(ls -d /usr 2>&1)"
[ -e /proc/1/root/usr ] || touch "$AZURE_ML_INPUT_data/y" 2>/dev/null && echo "could write"
echo $RANK > outputs/rank$RANK
"""
    prepare = "{max_retries: 0, prepare: 'ls -d /usr || echo no more than the image > outputs/prepared'}"
    job = start(boxed, script, inputs=f"{{data: {{type: uri_folder, path: {data}}}}}", drumbeat=prepare)
    found = ended(boxed, job)
    assert found.state == "completed", (found.sentence, boxed.logs(job.name))
    said = "at 127.0.0.1, digits, ls: /usr: No such file or directory"
    logs = boxed.logs(job.name)
    assert {rank: text for rank, text in logs.items() if rank >= 0} == {
        rank: f"rank {rank} of 4 {said}\n" for rank in range(4)
    }
    names = {file.path for file in boxed.client.files(job.name)}
    assert {f"outputs/default/{name}" for name in ("prepared", *(f"rank{rank}" for rank in range(4)))} <= names


def test_exit_code_and_signal_are_the_rank_s_own(boxed: House):
    found = ended(boxed, start(boxed, "[ $RANK = 3 ] && { echo 'no such column: price'; exit 7; }; sleep 60"))
    assert found.state == "failed"
    assert found.sentence.startswith("rank 3 on node 1 stopped with exit code 7: its last line is “no such")
    found = ended(boxed, start(boxed, "[ $RANK = 1 ] && kill -9 $$; sleep 60"))
    assert found.sentence.startswith("rank 1 on node 0 was ended by SIGKILL")


def test_cancel_asks_each_rank_once_and_gives_it_its_grace_time(boxed: House):
    script = """
trap 'echo asked; asked=1' TERM
echo begun
while [ -z "$asked" ]; do sleep 0.1; done
sleep 1
echo saved
"""
    job = start(boxed, script, drumbeat="{max_retries: 0, grace_s: 60}")
    until(lambda: sum("begun" in text for text in boxed.logs(job.name).values()) == 4, what="the start")
    boxed.client.cancel(job.name)
    assert ended(boxed, job).state == "canceled"
    said = {rank: text.split() for rank, text in boxed.logs(job.name).items()}
    assert {rank: (words.count("asked"), words[-1]) for rank, words in said.items()} == dict.fromkeys(
        range(4), (1, "saved")
    )


@pytest.mark.feature("F6")
@pytest.mark.parametrize("first", [pytest.param("nobody", marks=pytest.mark.thorough), "agent", "supervisor"])
def test_nothing_survives_the_end_of_the_job(boxed: House, first: str):
    nap = 8_000_000 + os.getpid()
    script = f"setsid sleep {nap} & setsid env -i /bin/sleep {nap} & trap '' TERM; echo begun; sleep {nap}"
    job = start(boxed, script, drumbeat="{max_retries: 0, grace_s: 1}")
    until(lambda: sum("begun" in text for text in boxed.logs(job.name).values()) == 4, what="the start")
    until(lambda: len(sleepers(nap)) >= 12, what="the start of every sleeper")
    if first != "nobody":
        kill(boxed, "drumbeat.node.supervisor.supervisor" if first == "supervisor" else "drumbeat.node.agent")
    if first != "supervisor":
        boxed.client.cancel(job.name)
    ended(boxed, job)
    until(lambda: not sleepers(nap), 120, what="the end of what the ranks started")


@pytest.mark.feature("F6")
@pytest.mark.thorough
def test_a_job_whose_agents_hang_leaves_no_container(boxed: House, podman: dict[str, str]):
    """It is ended by force, and the container engine with it, which would have removed them."""
    keys = "{max_retries: 0, grace_s: 1, lost_after_s: 20}"
    job = start(boxed, "echo begun; exec sleep 600", drumbeat=keys)
    until(lambda: sum("begun" in text for text in boxed.logs(job.name).values()) == 4, what="the start")
    assert left(podman)
    for process in boxed.processes():
        if "enrolment.json" in line_of(process):
            process.suspend()
    boxed.client.cancel(job.name)
    assert ended(boxed, job).state == "canceled"
    until(lambda: not left(podman), what="the end of every container")


DOCKER = """#!/bin/sh
case "$1" in
    image) echo '[{{"Id": "c0ffee", "RootFS": {{"Layers": []}}}}]' ;;
    run) echo c0ffee >{folder}/there; exec sleep 600 ;;
    ps) [ ! -e {folder}/mute ] || {mute}; cat {folder}/there 2>/dev/null || true ;;
    rm) rm -f {folder}/there ;;
esac
"""


@pytest.mark.feature("F6")
@pytest.mark.parametrize("mute", ["exit 1", "exec sleep 600"], ids=["refuses", "hangs"])
@pytest.mark.thorough
def test_no_round_begins_while_dockers_daemon_may_still_run_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mute: str
):
    """The ranks are clients: their end is not their containers'."""
    (tmp_path / "bin").mkdir()
    for name, text in (("docker", DOCKER.format(folder=tmp_path, mute=mute)), ("podman", "#!/bin/sh\nexit 1\n")):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    (tmp_path / "g").mkdir()
    with guarded(tmp_path), AgentGang(tmp_path / "g", "true", container=Container("localhost/x:1")) as there:
        there.run()
        until((tmp_path / "there").exists, what="the container")
        (tmp_path / "mute").touch()
        there.order(Order.STOP, grace_s=0.0)
        there.server.wait_for(lambda: there.status().exits, 60)
        there.order(Order.PREPARE, 2)
        journal = there.root() / "agent.log"
        heard = f" directive: {Order.PREPARE}:{there.server.attempt}:2\n"
        there.server.wait_for(lambda: heard in journal.read_text(), 60)
        there.server.wait_for(lambda: "docker doesn't say whether a container" in there.status().detail)
        assert {(one.round, one.phase) for one in there.server.said[0]} >= {(1, Phase.RUNNING)}
        assert not [one for one in there.server.said[0] if one.round == 2 or one.phase is Phase.ENDED]
        (tmp_path / "mute").unlink()
        there.reach(Phase.READY, 2)
        assert not (tmp_path / "there").exists()


def kill(house: House, module: str) -> None:
    """Each of the house's processes that run a module; some of them take others along."""
    for process in house.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            if module in process.cmdline():
                process.send_signal(signal.SIGKILL)


def sleepers(nap: int) -> list[psutil.Process]:
    return [p for p in psutil.process_iter(["cmdline"]) if (p.info["cmdline"] or [])[-1:] == [str(nap)]]


LOGS = r"""
rest=${DRUMBEAT_METRICS#http://}; host=${rest%%/*}; body="{\"points\": [[\"loss\", $RANK, 0, 1]]}"
exec 3<>/dev/tcp/${host%:*}/${host#*:}
printf 'POST /%s/log HTTP/1.1\r\nHost: node\r\nContent-Length: %s\r\nConnection: close\r\n\r\n%s' \
    "${rest#*/}" ${#body} "$body" >&3
read -r status <&3
case $status in *200*) ;; *) echo "$status"; exit 1 ;; esac
"""


@pytest.mark.feature("M2")
def test_ranks_in_containers_log_metrics_to_the_endpoint_of_their_node(boxed: House):
    job = ended(boxed, start(boxed, LOGS))
    assert job.state == "completed", job.sentence
    series = boxed.client.metrics(job.name).series
    assert {(one.rank, one.last.value) for one in series if one.name == "loss"} == {(rank, rank) for rank in range(4)}


def test_an_image_that_cannot_be_had_fails_the_job_with_the_engine_s_words(boxed: House):
    found = ended(boxed, start(boxed, "true", image="localhost:1/nobody/nothing:1"))
    assert found.state == "failed"
    assert "podman can't pull image localhost:1/nobody/nothing:1: " in found.sentence


@pytest.mark.feature("C4")
@pytest.mark.thorough
def test_in_a_slurm_job_each_node_runs_its_ranks_in_containers_of_its_own(
    podman: dict[str, str], tmp_path_factory: pytest.TempPathFactory
):
    with slurm(tmp_path_factory.mktemp("boxes"), lambda cluster: give_storages(cluster, podman)) as place:
        script = 'echo "rank $RANK on $(cat /proc/sys/kernel/hostname), $(ls -d /usr 2>&1)"'
        job = start(place.house, script, compute=place.compute)
        found = ended(place.house, job)
        assert found.state == "completed", (found.sentence, place.house.logs(job.name))
        said = place.house.logs(job.name)
        assert [text.split()[1] for _, text in sorted(said.items())] == ["0", "1", "2", "3"]
        assert len({text.split()[3] for text in said.values()}) == 2
        assert all(text.endswith("ls: /usr: No such file or directory\n") for text in said.values())


def give_storages(cluster: SlurmLab, podman: dict[str, str]) -> None:
    """Each node has a Podman storage of its own, as on machines of their own, with the image in it."""
    image = Path(podman["CONTAINERS_CONF"]).with_name("image.tar")
    there = cluster.folder / "podman"
    for name in cluster.names:
        (there / name).mkdir(parents=True)
        text = f'[storage]\ndriver = "overlay"\ngraphroot = "{there}/{name}/root"\nrunroot = "{there}/{name}/run"\n'
        (there / name / "storage.conf").write_text(text)
        settings = [
            f"CONTAINERS_STORAGE_CONF={there}/{name}/storage.conf",
            f"CONTAINERS_CONF={podman['CONTAINERS_CONF']}",
        ]
        cluster.on(name, "env", *settings, "podman", "import", str(image), IMAGE)
    with (cluster.folder / "prolog").open("a") as prolog:
        prolog.write(f"echo export CONTAINERS_CONF={podman['CONTAINERS_CONF']}\n")
        prolog.write(f"echo export CONTAINERS_STORAGE_CONF={there}/$SLURMD_NODENAME/storage.conf\n")


@pytest.mark.thorough
@pytest.mark.feature("M10")
@pytest.mark.parametrize("rank", [0, 3])
@pytest.mark.parametrize(
    "distribution",
    ["{type: pytorch, process_count_per_instance: 2}", "{type: tensorflow, worker_count: 4}"],
    ids=["pytorch", "tensorflow"],
)
def test_command_of_a_person_runs_in_the_container_of_its_rank(boxed: House, distribution: str, rank: int):
    service = "{type: Loop, properties: {command: 'while :; do sleep 0.1; done'}}"
    script = "echo mine > /tmp/rank-${RANK:-$TASK_INDEX}; while :; do sleep 0.1; done"
    job = start(boxed, script, distribution=distribution, services=f"{{beside: {service}}}")
    until(lambda: boxed.client.get(job.name).state == "running", 120)
    words = ["sh", "-c", f"cat; cat /tmp/rank-{rank}; ls -d /usr; exit 6"]
    line = [DRUMBEAT, "exec", job.name, "--rank", str(rank), "--", *words]
    done = subprocess.run(line, env=boxed.environment, input=b"in\n", capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (6, b"in\nmine\n"), done.stderr
    boxed.client.cancel(job.name)
    assert ended(boxed, job).state == "canceled"


@pytest.mark.feature("R2")
def test_replica_in_a_container_reaches_the_router(boxed: House, podman: dict[str, str], tmp_path: Path):
    image_with_python(podman, tmp_path)
    endpoint = Endpoint(boxed)
    script = SCRIPT.format(version="boxed").replace('"version":', '"has_usr": os.path.exists("/usr/bin"), "version":')
    endpoint.deploy(script, environment={"image": PYTHON_IMAGE})
    endpoint.await_state("ready")
    endpoint.direct(blue=100)
    until(lambda: endpoint.invoke().status_code == 200)
    answer = endpoint.invoke().json()
    assert (answer["sum"], answer["has_usr"]) == (6, False)
    before = endpoint.router().pid
    endpoint.router().kill()  # The next one has another socket, in the same folder.
    until(lambda: endpoint.answers() and endpoint.router().pid != before)
    endpoint.direct()
    endpoint.call("DELETE", "")
    until(lambda: not endpoint.replicas())
