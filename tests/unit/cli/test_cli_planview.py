"""What `plan` prints, as text."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from drumbeat.cli.commands.plan_tables import render_plan, split_names
from drumbeat.model.api.jobs import PreviewView, StepPreview
from drumbeat.model.plan import Elastic, Growth, OutputPlan, Plan, PythonEnvironment, Rank
from drumbeat.model.process import ProcessSpec
from drumbeat.model.states import JobKind
from tests.unit.cli.samples import sample


def preview(nodes: int = 2, per_node: int = 2) -> PreviewView:
    """What the server would answer for a small job."""
    ranks = tuple(Rank(node * per_node + local, node, local) for node in range(nodes) for local in range(per_node))
    plan = Plan(
        job="mnist-7f3a",
        experiment="digits",
        launcher="pytorch",
        nodes=nodes,
        processes_per_node=per_node,
        command="python train.py --data ${{inputs.data}} --epochs 8",
        ranks=ranks,
        outputs=(OutputPlan("default", "uri_folder", "rw_mount"),),
    )
    processes = tuple(a_process(rank, nodes * per_node) for rank in ranks)
    return sample(
        PreviewView, plan, processes, ("code: 3 files, 12.0 KiB",), "would start at once on local", ("no GPU here",)
    )


def a_process(rank: Rank, world_size: int) -> ProcessSpec:
    return ProcessSpec(
        rank=rank.rank,
        local_rank=rank.local_rank,
        role=rank.role,
        argv=("/bin/bash", "-c", "python train.py --data /data/digits --epochs 8"),
        cwd=f"/n/{rank.node}/code",
        log=f"logs/1.1/{rank.node}/{rank.rank}.log",
        set={
            "SEED": "42",
            "MASTER_ADDR": "10.0.0.0",
            "MASTER_PORT": "29500",
            "WORLD_SIZE": str(world_size),
            "NODE_RANK": str(rank.node),
            "RANK": str(rank.rank),
            "LOCAL_RANK": str(rank.local_rank),
            "DRUMBEAT_OUTPUT_DIR": f"/n/{rank.node}/outputs/default",
        },
        defaulted={"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
        scrubbed=("SLURM_*", "OMPI_*", "PMI*", "TORCHELASTIC_*", "RANK"),
        path_first=("/envs/7f3a/bin",),
    )


def render(shown: PreviewView, *, full: bool = False, verbose: bool = False) -> str:
    console = Console(file=StringIO(), width=100, highlight=False, markup=False, emoji=False, color_system=None)
    for part in render_plan(shown, full=full, verbose=verbose):
        console.print(part)
    text = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue] - the StringIO above
    return "\n".join(line.rstrip() for line in text.splitlines())


@pytest.mark.feature("J4")
def test_plan_of_a_job_on_two_nodes_is_printed():
    assert render(preview()) == GOLDEN.strip("\n")


@pytest.mark.feature("F8", "J4")
def test_the_plan_of_an_elastic_job_has_its_numbers_of_nodes():
    shown = preview()
    text = render(replace(shown, plan=replace(shown.plan, elastic=Elastic(1, 2, 4, Growth.AT_ONCE))))
    assert "nodes        1 to 4, 2 asked for; grows at once" in text
    assert "asked for" not in render(shown)


@pytest.mark.feature("J4")
@pytest.mark.feature("T3", "J4")
def test_the_plan_of_a_mesh_has_each_ranks_stage_and_shard():
    shown = preview()
    text = render(replace(shown, plan=replace(shown.plan, mesh={"pp": 2, "dp": 2})))
    assert "mesh         2 pipeline stages (pp) × 2 data shards (dp)" in text
    places = [line.split("worker")[1].strip() for line in text.splitlines() if "stage " in line and "worker" in line]
    assert places == ["stage 0, shard 0", "stage 0, shard 1", "stage 1, shard 0", "stage 1, shard 1"]


def test_ranks_with_roles_that_are_dealt_out_one_by_one():
    roles = ("chief", "worker", "worker", "ps", "ps")
    ranks = tuple(Rank(n, n % 2, n // 2, role) for n, role in enumerate(roles))
    shown = preview()
    plan = replace(shown.plan, launcher="tensorflow", processes_per_node=3, ranks=ranks)
    by_node = sorted(ranks, key=lambda rank: rank.node)
    text = render(replace(shown, plan=plan, processes=tuple(a_process(rank, 5) for rank in by_node)))
    assert "would run tensorflow on 2 nodes × 2 or 3 per node = 5 ranks" in text
    rows = [line.split(maxsplit=3) for line in text.splitlines() if line.endswith(("chief", "0", "1"))]
    assert [row[3] for row in rows if len(row) == 4] == ["chief", "worker 0", "worker 1", "ps 0", "ps 1"]
    assert "ranks 0, 2, 4: /n/0/code\n  ranks 1, 3: /n/1/code" in text
    own = text.split("… and of each rank")[1]
    assert [line.split()[0] for line in own.splitlines()[3:8]] == ["0", "1", "2", "3", "4"]


@pytest.mark.feature("E1", "J4")
def test_plan_names_the_parts_of_the_environment():
    shown = preview(1, 1)
    python = PythonEnvironment("0123456789abcdef", "mine:3", "3.11", ("torch", "--pre"), ("gcc",), (), "env.yml")
    plan = replace(shown.plan, environment="mine:3", python=python)
    text = render(replace(shown, plan=plan))
    assert "environment  mine:3\n" in text
    made_of = "made of      1 package with pip, 1 with conda, Python 3.11; key 0123456789ab, written in env.yml\n"
    assert f"{made_of}container    none\n" in text


@pytest.mark.feature("L12")
def test_plan_shows_what_runs_before_the_ranks():
    shown = preview(1, 1)
    text = render(replace(shown, plan=replace(shown.plan, prepare="module load cuda\nmake")))
    assert "Run on each node before the ranks\n  module load cuda\n  make\n" in text


@pytest.mark.feature("J4")
def test_full_plan_has_a_line_for_each_process():
    text = render(preview(), full=True)
    for rank, place in enumerate(("node 0 · local rank 0", "node 0 · local rank 1", "node 1 · local rank 0")):
        assert f"Rank {rank} · {place} · worker" in text
    assert text.count("MASTER_PORT=29500") == 4
    assert "/n/1/outputs/default" in text


def test_removed_variables_are_listed_only_when_verbose():
    assert "SLURM_*" not in render(preview())
    assert "removed" in render(preview(), verbose=True)
    assert "SLURM_*, OMPI_*, PMI*," in render(preview(), verbose=True)


TRIALS = "6 trials, 2 at a time, random over lr (loguniform, 0.0001 to 0.1); maximize accuracy"


@pytest.mark.feature("J4")
def test_plan_of_a_sweep_begins_with_its_values_and_shows_ranks_only_when_verbose():
    shown = replace(preview(), parent="grid", sweep=TRIALS)
    lines = render(shown).splitlines()
    assert " ".join(lines[:2]) == f"grid would run {TRIALS}; nothing has been started."
    assert lines[3] == "Each trial"
    assert "runs         pytorch on 2 nodes × 2 per node = 4 ranks" in lines
    assert not any(line.startswith(("Ranks", "Environment of")) for line in lines)
    assert "\nRanks of mnist-7f3a\n" in render(shown, verbose=True)


def a_step(name: str, *after: str, sweep: str = "") -> StepPreview:
    kind = JobKind.SWEEP if sweep else JobKind.COMMAND
    return StepPreview(name, kind, after, "pytorch", 1, 1, 1, "local", "current", f"python {name}.py", sweep)


@pytest.mark.feature("J4")
def test_plan_of_a_pipeline_has_its_graph_and_a_table_for_each_kind_of_step():
    steps = (a_step("prep"), a_step("tune", "prep", sweep=TRIALS), a_step("eval", "tune"))
    text = render(replace(preview(), parent="night", steps=steps))
    assert text.startswith("night would run 3 steps; nothing has been started.\n\nGraph\n")
    headings = [
        text.index(f"\n\n{one}\n")
        for one in ("Graph", "Commands", "Sweeps", "Staged on each node of prep, the first step")
    ]
    assert headings == sorted(headings)
    assert "  └ tune     sweep     prep" in text
    assert "prep   1 process on 1 node   local     current       python prep.py" in text
    assert "Ranks" not in text


def test_one_process_needs_no_table_of_differences():
    text = render(preview(1, 1))
    assert "RANK=0" in text
    assert "of each" not in text


def test_variables_are_split_by_who_has_them_alike():
    shared, of_node, of_rank = split_names(preview())
    assert {"SEED", "MASTER_ADDR", "WORLD_SIZE"} <= set(shared)
    assert {"NODE_RANK", "DRUMBEAT_OUTPUT_DIR"} <= set(of_node)
    assert of_rank == ["LOCAL_RANK", "RANK"]


def test_many_nodes_are_cut_short():
    text = render(preview(12, 2))
    assert "… and 4 more; --full shows each process whole" in text


def test_many_ranks_are_cut_short():
    text = render(preview(2, 50))
    assert text.count("… and 36 more; --full shows each process whole") == 2
    assert "more; --full" not in render(preview(2, 50), full=True)


def test_plan_of_a_job_that_can_never_start_begins_with_the_reason():
    shown = preview()
    text = render(replace(shown, plan=replace(shown.plan, ranks=()), processes=(), queue="never", never=True))
    assert text.splitlines()[:3] == [
        "never",
        "job       mnist-7f3a",
        "asks for  pytorch on 2 nodes × 2 per node = 4 ranks",
    ]


def test_control_characters_in_a_command_are_escaped():
    shown = preview()
    hostile = replace(shown.processes[0], argv=("/bin/bash", "-c", "echo \x1b[2J"))
    assert "\x1b" not in render(replace(shown, processes=(hostile,)))


GOLDEN = """
mnist-7f3a would run pytorch on 2 nodes × 2 per node = 4 ranks; nothing has been started.
experiment   digits
compute      local
environment  the current interpreter
container    none
devices      no GPUs
outputs      default

Ranks
node   rank   local rank   role
─────────────────────────────────
   0      0            0   worker
   0      1            1   worker
   1      2            0   worker
   1      3            1   worker

Command
  python train.py --data /data/digits --epochs 8

Working folder
  ranks 0-1: /n/0/code
  ranks 2-3: /n/1/code

Environment of every rank
set                                                                 defaulted
────────────────────────────────────────────────────────────────────────────────────────────────────
MASTER_ADDR=10.0.0.0                                                OMP_NUM_THREADS=1
MASTER_PORT=29500                                                   PYTHONUNBUFFERED=1
SEED=42
WORLD_SIZE=4
PATH=/envs/7f3a/bin:…

… and of each node
node   variable              value
─────────────────────────────────────────────────
   0   DRUMBEAT_OUTPUT_DIR   /n/0/outputs/default
       NODE_RANK             0
   1   DRUMBEAT_OUTPUT_DIR   /n/1/outputs/default
       NODE_RANK             1

… and of each rank
rank   LOCAL_RANK   RANK
────────────────────────
   0   0            0
   1   1            1
   2   0            2
   3   1            3

Staged on each node
  code: 3 files, 12.0 KiB

Queue
  would start at once on local

Notes
  no GPU here
"""
