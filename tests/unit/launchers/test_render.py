"""Rank tables and environments, as tables."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest

from drumbeat import launchers
from drumbeat.launchers import path_substitution
from drumbeat.model.plan import InputPlan, OutputPlan, Plan
from drumbeat.model.process import ProcessSpec, is_scrubbed
from drumbeat.model.roster import Member, Roster


def a_plan(nodes: int, per_node: int, **more: object) -> Plan:
    plan = Plan("j", "exp", "pytorch", nodes, per_node, "python t.py", launchers.ranks("pytorch", nodes, per_node))
    return replace(plan, **more)


def a_roster(nodes: int, root: str = "/n") -> Roster:
    members = tuple(Member(n, f"h{n}", f"10.0.0.{n + 1}", f"{root}/{n}", "/keep") for n in range(nodes))
    return Roster(2, 3, members, port=29511)


def processes(plan: Plan) -> list[ProcessSpec]:
    return [p for node in range(plan.nodes) for p in launchers.render(plan, a_roster(plan.nodes), node)]


@pytest.mark.feature("L1", "J5")
@pytest.mark.parametrize(("nodes", "per_node"), [(1, 1), (1, 4), (2, 2), (2, 4), (3, 4)])
def test_the_rank_table_of_every_shape(nodes: int, per_node: int):
    found = [p.set for p in processes(a_plan(nodes, per_node))]
    names = (
        "RANK",
        "LOCAL_RANK",
        "NODE_RANK",
        "GROUP_RANK",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
    )
    expected = [
        (*map(str, (r, r % per_node, r // per_node, r // per_node, nodes * per_node, per_node)), "10.0.0.1", "29511")
        for r in range(nodes * per_node)
    ]  # fmt: skip
    assert [tuple(env[name] for name in names) for env in found] == expected


@pytest.mark.feature("L1")
def test_the_whole_environment_of_one_rank():
    plan = a_plan(
        2, 2, variables={"FOO": "1"}, literals={"lr": "0.1"},
        inputs=(InputPlan("d", "uri_folder", "file:///data", "ro_mount"),),
        outputs=(OutputPlan("m", "uri_folder", "upload"),),
    )  # fmt: skip
    last = processes(plan)[3]
    assert last.set == {
        "FOO": "1",
        "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "NODE_RANK": "1", "GROUP_RANK": "1",
        "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29511", "DLTS_HOSTFILE": "/n/1/hostfile",
        "AZUREML_RUN_ID": "j", "AZUREML_ARM_PROJECT_NAME": "exp", "AZUREML_NODE_COUNT": "2",
        "AZUREML_CR_NODE_RANK": "1",
        "AZ_BATCH_HOST_LIST": "10.0.0.1,10.0.0.2", "AZ_BATCHAI_JOB_MASTER_NODE_IP": "10.0.0.1",
        "AZUREML_PARAMETER_lr": "0.1", "AZURE_ML_INPUT_d": "/data", "AZURE_ML_OUTPUT_m": "/n/1/outputs/m",
        "DRUMBEAT_JOB": "j", "DRUMBEAT_ATTEMPT": "2", "DRUMBEAT_ROUND": "3",
        "DRUMBEAT_OUTPUT_DIR": "/n/1/outputs/default", "DRUMBEAT_CHECKPOINT_DIR": "/keep",
        "CUDA_VISIBLE_DEVICES": "",
    }  # fmt: skip
    assert last.defaulted == {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    assert (last.cwd, last.log) == ("/n/1/code", "logs/2.3/1/3.log")


@pytest.mark.feature("L11")
def test_a_gpus_number_means_the_same_to_every_job():
    member = replace(a_roster(1).members[0], gpus=("1",))
    rank = launchers.render(a_plan(1, 1), replace(a_roster(1), members=(member,)), 0)[0]
    assert rank.defaulted["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert "CUDA_DEVICE_ORDER" not in processes(a_plan(1, 1))[0].defaulted


@pytest.mark.feature("L11")
def test_ranks_see_the_devices_of_their_node_and_no_others():
    roster = a_roster(2)
    members = (replace(roster.members[0], gpus=("0", "1")), replace(roster.members[1], gpus=("2", "3")))
    first, second = (launchers.render(a_plan(2, 2), replace(roster, members=members), n)[0].set for n in (0, 1))
    assert (first["CUDA_VISIBLE_DEVICES"], second["CUDA_VISIBLE_DEVICES"]) == ("0,1", "2,3")


def test_columns_set_over_inherited_over_defaulted():
    spec = ProcessSpec(
        0, 0, "worker", ("x",), "/", "l", {"A": "set"}, {"A": "d", "B": "d", "C": "d"}, ("SLURM_*", "RANK")
    )
    inherited = {"A": "i", "B": "i", "SLURM_JOB_ID": "7", "RANK": "9", "KEPT": "k"}
    assert spec.environment(inherited) == {"A": "set", "B": "i", "C": "d", "KEPT": "k"}


def test_the_chosen_environment_comes_first_on_the_path():
    spec = ProcessSpec(0, 0, "worker", ("x",), "/", "l", path_first=("/venv/bin",))
    assert spec.environment({"PATH": "/usr/bin"})["PATH"] == "/venv/bin:/usr/bin"


@pytest.mark.parametrize(
    "name", ["SLURM_PROCID", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "TORCHELASTIC_RUN_ID", "AZUREML_RUN_TOKEN"]
)
def test_variables_of_other_launchers_are_removed(name: str):
    assert is_scrubbed(name, processes(a_plan(1, 1))[0].scrubbed)


def test_one_process_on_a_node_keeps_its_threads():
    assert "OMP_NUM_THREADS" not in processes(a_plan(2, 1))[0].defaulted


@pytest.mark.feature("J3")
@pytest.mark.parametrize(
    ("command", "shell"),
    [
        ("t ${{inputs.d}}", "t '/a b/x'"),
        ("t ${{ inputs.d }}/part", "t '/a b/x'/part"),
        ('t "${{inputs.d}}"', 't "/a b/x"'),
        ("t '${{inputs.d}}'", "t '/a b/x'"),
        ('t \\"${{inputs.d}}', "t \\\"'/a b/x'"),
        ('t "it\'s" ${{inputs.d}}', "t \"it's\" '/a b/x'"),
        ("# don't forget\nt ${{inputs.d}}", "# don't forget\nt '/a b/x'"),
        ("t; # it's\nt ${{inputs.d}}", "t; # it's\nt '/a b/x'"),
        ("t 'a' # it's '\nt ${{inputs.d}}", "t 'a' # it's '\nt '/a b/x'"),
        ("t a#b' ${{inputs.d}}'", "t a#b' /a b/x'"),
        ('t " # ${{inputs.d}}"', 't " # /a b/x"'),
        ("t 'a\\' ${{inputs.d}}", "t 'a\\' '/a b/x'"),
        ("cat <<EOF\nit's\nEOF\nt ${{inputs.d}}", "cat <<EOF\nit's\nEOF\nt '/a b/x'"),
        ("cat <<-'E'\nit's\n\tE\nt ${{inputs.d}}", "cat <<-'E'\nit's\n\tE\nt '/a b/x'"),
        ("cat <<EOF\nit's ${{inputs.d}}\nEOF\n", "cat <<EOF\nit's /a b/x\nEOF\n"),
        ("t <<< 'it' ${{inputs.d}}", "t <<< 'it' '/a b/x'"),
    ],
)
def test_paths_are_quoted_for_where_they_stand(command: str, shell: str):
    plan = a_plan(1, 1, command=command, inputs=(InputPlan("d", "uri_folder", "file:///a%20b/x", "direct"),))
    assert path_substitution.fill(plan, "/n/0") == shell


@pytest.mark.feature("X8")
@pytest.mark.parametrize(
    ("command", "shell"),
    [
        ("t ${{outputs.m}}", 't "$AZURE_ML_OUTPUT_m"'),
        ('t "x=${{outputs.m}}"', 't "x=${AZURE_ML_OUTPUT_m}"'),
        ("t 'x=${{outputs.m}}'", "t 'x='\"$AZURE_ML_OUTPUT_m\"''"),
        ("# it's\nt ${{outputs.m}}", '# it\'s\nt "$AZURE_ML_OUTPUT_m"'),
    ],
)
def test_a_signed_address_stands_in_a_variable_and_in_no_command(command: str, shell: str):
    signed = OutputPlan("m", "uri_file", "direct", "https://host/m?sig=secret")
    plan = a_plan(1, 1, command=command, outputs=(signed,))
    assert path_substitution.fill(plan, "/n/0") == shell
    assert path_substitution.node_paths(plan, "/n/0")["outputs"]["m"] == signed.uri
    value = subprocess.run(
        ["bash", "-c", shell.replace("t ", "printf %s ", 1)], env={"AZURE_ML_OUTPUT_m": "a b&c"}, capture_output=True,
        text=True, check=True,
    ).stdout  # fmt: skip
    assert value.removeprefix("x=") == "a b&c"


@pytest.mark.feature("D2")
def test_ranks_get_the_requested_paths():
    inputs = (InputPlan("d", "uri_folder", "https://host/x", "ro_mount", appears="/data/x"),)
    outputs = (OutputPlan("m", "uri_folder", "rw_mount", appears="/out"),)
    found = path_substitution.node_paths(a_plan(1, 1, inputs=inputs, outputs=outputs), "/n/0")
    assert (found["inputs"]["d"], found["outputs"]["m"]) == ("/data/x", "/out")


def test_a_copied_file_keeps_its_name():
    plan = a_plan(1, 1, inputs=(InputPlan("f", "uri_file", "file:///a/labels.csv", "download"),))
    assert path_substitution.node_paths(plan, "/n/0")["inputs"]["f"] == "/n/0/inputs/f/labels.csv"


@pytest.mark.feature("C13")
def test_rank_with_a_brief_roster_lacks_the_lists_of_hosts_alone():
    plan, whole = a_plan(80, 2), a_roster(80)
    brief = whole.brief("abc").with_member(whole.members[70], ())
    full, short = (launchers.render(plan, roster, 70)[1].set for roster in (whole, brief))
    assert full.keys() - short.keys() == {"AZ_BATCH_HOST_LIST", "DLTS_HOSTFILE"}
    assert {name: full[name] for name in short} == short


@pytest.mark.feature("C13")
@pytest.mark.parametrize(
    ("plan", "is_needed"),
    [
        (a_plan(64, 8), True),
        (a_plan(65, 8), False),
        (a_plan(65, 1), True),
        (a_plan(65, 8, command="deepspeed --hostfile $DLTS_HOSTFILE t.py"), True),
        (a_plan(65, 8, command="echo $AZ_BATCH_HOST_LIST"), True),
        (a_plan(65, 8, launcher="mpi"), True),
        (a_plan(65, 8, launcher="ray"), True),
        (a_plan(65, 8, launcher="tensorflow"), True),
        (a_plan(65, 8, launcher="of a later version"), True),
    ],
)
def test_whole_roster_is_needed_for_lists_of_hosts(plan: Plan, is_needed: bool):
    assert launchers.needs_all_nodes(plan) is is_needed
