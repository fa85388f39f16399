"""`drumbeat compute` as a user types it, against a server in memory."""

import json
from pathlib import Path

import pytest

from drumbeat.cli.commands.computes import format_created
from drumbeat.model.api.computes import ComputeView, HeldView, Machine, Scale, Tier
from drumbeat.model.errors import ConflictError
from tests.unit.cli.fake_server import FakeServer, Type, typing_in
from tests.unit.cli.samples import NOON, sample

pytestmark = pytest.mark.feature("C1")

LAB = "name: lab\ntype: netlab\nnodes: 3\nbandwidth: 200mbit\n"


@pytest.fixture
def drumbeat(server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Type:
    (tmp_path / "lab.yml").write_text(LAB)
    return typing_in(tmp_path, monkeypatch)


def rack() -> ComputeView:
    machines = (
        sample(Machine, "gpu-1", 8, ("0", "1"), 65536, state="running", word="reachable"),
        sample(Machine, "gpu-2", 8, ("0", "1"), 65536, state="unusable", unusable="ssh: no route to host \x1b[2J"),
    )
    held = (sample(HeldView, "mnist-7f3a", 1, 0, "gpu-1", 2, ("0",)),)
    spec = {"name": "rack", "type": "ssh", "hosts": [{"address": "gpu-1"}, {"address": "gpu-2"}]}
    return sample(ComputeView, "rack", "ssh", machines, held, waiting=3, spec=spec)


def test_a_compute_is_made_from_a_file(drumbeat: Type, server: FakeServer):
    shown = drumbeat("compute", "create", "-f", "lab.yml", "--set", "nodes=4")
    assert shown.stdout == (
        "compute lab created: netlab, 4 machines, 16 CPU slots, 0 GPUs\n"
        "  to run a job on it, write in the job's file: compute: lab\n"
    )
    assert server.calls == [
        ("create_compute", {"name": "lab", "type": "netlab", "nodes": 4, "bandwidth": "200mbit"}),
    ]


def test_a_file_can_be_made_under_another_name(drumbeat: Type, server: FakeServer):
    assert drumbeat("compute", "create", "-f", "lab.yml", "other").exit_code == 0
    assert [one.name for one in server.known_computes] == ["other"]


def test_a_netlab_is_made_from_options(drumbeat: Type, server: FakeServer):
    words = ("lab", "--type", "netlab", "--nodes", 3, "--cpus", 2, "--bandwidth", "200mbit", "--subnet", "10.7.0.0/24")
    assert drumbeat("compute", "create", *words).exit_code == 0
    document = {"name": "lab", "type": "netlab", "nodes": 3, "cpus": 2, "bandwidth": "200mbit", "subnet": "10.7.0.0/24"}
    assert server.calls == [("create_compute", document)]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "name a file with -f, or give a name and a type"),
        (("lab",), "drumbeat compute create lab --type netlab --nodes 2"),
        (("lab", "--type", "ssh"), "a compute of type ssh is described in a file"),
        (("lab", "--type", "netlap"), "Did you mean `netlab`?"),
        (("local", "--type", "netlab"), "`local` is the built-in compute: this machine"),
        (("lab", "--type", "netlab", "--nodes", 0), "`nodes`: must be at least 1, got the number 0"),
        (("lab", "--type", "netlab", "--set", "nodes=2"), "--set changes a value of a file, and none was named"),
        (("-f", "lab.yml", "--nodes", 2), "With a file: --set nodes=2"),
        (("-f", "lab.yml", "--set", "node=2"), "--set node"),
        (("-f", "lba.yml"), "Did you mean `lab.yml`?"),
    ],
)
def test_invalid_options_are_refused_without_the_server(
    drumbeat: Type, server: FakeServer, words: tuple[object, ...], says: str
):
    shown = drumbeat("compute", "create", *words)
    assert shown.exit_code == 2
    assert says in shown.stderr
    assert server.calls == []


def test_list_has_a_row_for_each_compute_and_a_line_for_each_trouble(drumbeat: Type, server: FakeServer):
    local = sample(ComputeView, "local", "local", (sample(Machine, "laptop", 8, ("0",)),))
    broken = sample(ComputeView, "lab", "netlab", (), trouble="it needs root. Start the server as root")
    server.known_computes = [local, rack(), broken]
    assert [line.split() for line in drumbeat("compute", "list").stdout.splitlines()[2:]] == [
        ["local", "local", "1", "1", "idle", "8", "of", "8", "1", "of", "1", "0"],
        ["rack", "ssh", "2", "1", "running,", "1", "unusable", "6", "of", "16", "1", "of", "4", "3"],
        ["lab", "netlab", "0", "0", "of", "0", "0", "of", "0", "0"],
        [],
        ["compute", "rack:", "gpu-2", "can't", "be", "used:", "ssh:", "no", "route", "to", "host", "\\x1b[2J"],
        ["compute", "lab", "can't", "be", "used:", "it", "needs", "root.", "Start", "the", "server", "as", "root"],
    ]


def test_show_tells_of_each_machine_and_what_the_compute_was_made_from(drumbeat: Type, server: FakeServer):
    server.known_computes = [rack()]
    lines = [" ".join(line.split()) for line in drumbeat("compute", "show", "rack").stdout.splitlines()]
    assert "gpu-1 running 2 of 8 held 1 of 2 held 64.0 GiB mnist-7f3a reachable" in lines
    assert any(line.startswith("gpu-2 unusable 0 of 8 held 0 of 2 held 64.0 GiB ssh: no route") for line in lines)
    assert lines[lines.index("Made from") + 1 :] == [
        "type: ssh", "name: rack", "hosts:", "- address: gpu-1", "- address: gpu-2",
    ]  # fmt: skip


def test_show_names_why_a_compute_is_unusable(drumbeat: Type, server: FakeServer):
    server.known_computes = [
        sample(ComputeView, "lab", "netlab", (), trouble="it needs root", spec={"from": "the future"})
    ]
    text = drumbeat("compute", "show", "lab").stdout
    assert "can't be used  it needs root" in text
    assert '"from": "the future"' in text


@pytest.mark.parametrize("words", [("list",), ("show", "rack")])
def test_json_output_has_the_same_values(drumbeat: Type, server: FakeServer, words: tuple[str, ...]):
    server.known_computes = [rack()]
    told = json.loads(drumbeat("compute", *words, "--json").stdout)
    one = told[0] if isinstance(told, list) else told
    assert (one["name"], one["machines"][1]["state"], one["spec"]["type"]) == ("rack", "unusable", "ssh")


def test_delete_reports_success_or_the_reason(drumbeat: Type, server: FakeServer):
    server.known_computes = [rack()]
    assert drumbeat("compute", "delete", "rack", "--yes").stdout == "compute rack is deleted\n"
    shown = drumbeat("compute", "delete", "rack")
    assert (shown.exit_code, shown.stderr) == (1, "error: there is no compute rack; there is local\n")
    server.error = ConflictError("compute rack is used by mnist-7f3a", fix="Wait for it.")
    assert drumbeat("compute", "delete", "rack").stderr == (
        "error: compute rack is used by mnist-7f3a\n  → Wait for it.\n"
    )


def test_scale_changes_given_limits_and_prints_those_in_effect(drumbeat: Type, server: FakeServer):
    scale = Scale(0, 4, 60.0, None, 3.0, Tier.DEDICATED, {})
    server.known_computes = [sample(ComputeView, "lab", "netlab", (), spec={}, scale=scale, remarks=("so and so",))]
    shown = drumbeat("compute", "scale", "lab", "--min", 0, "--idle-time", 60)
    assert shown.stdout == (
        "compute lab: 0 to 4; switched off after 60 s without a job; a start usually takes 3 s\n  note: so and so\n"
    )
    numbers = {"min_instances": 0, "max_instances": None, "idle_time_before_scale_down": 60.0}
    assert server.calls[0] == ("scale_compute", "lab", numbers)


def test_scale_without_a_number_is_refused(drumbeat: Type, server: FakeServer):
    shown = drumbeat("compute", "scale", "lab")
    assert (shown.exit_code, server.calls) == (2, [])
    assert "say what to change: --min, --max or --idle-time" in shown.stderr


def test_show_has_the_numbers_the_states_and_the_notes(drumbeat: Type, server: FakeServer):
    scale = Scale(0, 2, 300.0, 600.0, 31.0, Tier.LOW_PRIORITY, {"tier": "PreemptMode"})
    machine = sample(Machine, "n1", 4, state="off", word="idle~", why="it is switched off", since=NOON)
    server.known_computes = [sample(ComputeView, "rack", "slurm", (machine,), scale=scale, remarks=("otherwise",))]
    text = " ".join(drumbeat("compute", "show", "rack").stdout.split())
    assert "0 to 2; switched off after 300 s without a job; a start usually takes 31 s, at most 600 s" in text
    assert "tier low_priority" in text
    assert "note otherwise" in text
    assert "n1 off" in text
    assert "idle~; it is switched off" in text


def test_starting_machines_of_a_new_compute_are_printed_in_one_line():
    machines = tuple(
        sample(Machine, f"node-{n}", 2, state="preparing", word="silent", unusable="it is starting") for n in range(3)
    )
    said = format_created(sample(ComputeView, "lab", "netlab", machines))
    assert "\n  starting: node-0, node-1, node-2\n" in said
    assert "can't be used" not in said
