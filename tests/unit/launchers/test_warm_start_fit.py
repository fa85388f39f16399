"""Which commands a warm worker can stand in for, and what the shell reads before they begin."""

from dataclasses import replace

import pytest

from drumbeat.launchers import warm_start_fit
from drumbeat.model.plan import Container, Plan

PREPARED = {
    "python train.py": (),
    "  python3.11 -u train.py --lr 0.1 --name 'a b' \"c\"\n": (),
    "/opt/env/bin/python -m trainer.main --rank $RANK": ("RANK",),
    "LEVEL=2 python train.py --data ${DATA}/x \"$HOME\"": ("DATA", "HOME", "LEVEL"),
    "cd src && exec python -W error -X dev -O train.py \\\n  --epochs 3": (),
    "python -c 'import torch; print(\"$(date)\", 1 > 0)'": (),
    "python -Bum trainer": (),
    "python train.py --grid=a#b \"\\$HOME\" \\$HOME": (),
}  # fmt: skip
COLD = {
    "echo hi": "isn't a Python program",
    "torchrun train.py": "isn't a Python program",
    "python -m torch.distributed.run train.py": "starts ranks of its own",
    "pip install x && python train.py": "more than one program",
    "python train.py; true": "more than one program",
    "python a.py\npython b.py": "more than one program",
    "python train.py | tee log": "more than one program",
    "python train.py > log": "opens files",
    "python train.py $(hostname)": "evaluates something",
    "python train.py \"`hostname`\"": "evaluates something",
    "python train.py *.csv": "evaluates something",
    "python train.py {a,b}": "evaluates something",
    "python train.py 'a": "evaluates something",
    "python train.py # note": "evaluates something",
    "python -I train.py": "-I",
    "python -uE train.py": "-E",
    "python -S -m trainer": "-S",
    "python -": "options can't be parsed",
    "python -i train.py": "isn't a Python program",
    "python": "names no script",
    "python $SCRIPT": "names no script",
    "PYTHONPATH=src python train.py": "the command sets PYTHONPATH",
    "LEVEL=2 PYTHONPATH=src:$PYTHONPATH python train.py": "the command sets PYTHONPATH",
    "cd src && PYTHONNOUSERSITE=1 exec python train.py": "the command sets PYTHONNOUSERSITE",
    "env A=b python train.py": "isn't a Python program",
    "$PYTHON train.py": "isn't a Python program",
    "": "isn't a Python program",
}  # fmt: skip


@pytest.mark.parametrize("command", PREPARED)
def test_a_python_program_gives_the_variables_that_its_shell_reads(command):
    assert warm_start_fit.shell_variables(command) == PREPARED[command]


@pytest.mark.parametrize("command", COLD)
def test_another_command_is_refused_with_the_reason(command):
    with pytest.raises(ValueError, match=COLD[command]):
        warm_start_fit.shell_variables(command)


def test_start_is_described_as_warm_cold_or_mixed():
    assert warm_start_fit.describe_start(2, 2, 2, "no") == "round 2 started warm"
    assert warm_start_fit.describe_start(2, 2, 0, "no") == "round 2 started cold: no"
    assert warm_start_fit.describe_start(2, 2, 1, "no") == "round 2 started warm with 1 of 2 ranks; the others cold: no"


@pytest.mark.parametrize(
    ("changes", "cold"),
    [
        ({}, ""),
        ({"warm_start": False}, "drumbeat: {warm_start: false}"),
        ({"clean_rounds": True}, "drumbeat: {clean_rounds: true}"),
        ({"launcher": "mpi"}, "ranks of launcher mpi start cold"),
        ({"container": Container("alpine")}, "ranks in containers start cold"),
    ],
)
def test_a_plan_says_why_its_ranks_start_cold(changes, cold):
    plan = Plan("j", "e", "pytorch", 1, 1, "python train.py", ())
    assert warm_start_fit.why_cold(replace(plan, **changes)) == cold
