"""What is wrong with a script, with the line; and that a right one has no hint."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from drumbeat.rehearsal.script_files import read_script
from drumbeat.rehearsal.script_hints import Hint, read_hints

pytestmark = pytest.mark.feature("F9")
RECIPES = Path(__file__).parents[3] / "recipes"

RIGHT = '''
    import os, torch
    from pathlib import Path
    FOLDER = Path(os.environ["DRUMBEAT_CHECKPOINT_DIR"])

    def save(model, optimizer, path):
        part = path.with_suffix(".part")
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "random": torch.get_rng_state()}
        torch.save(state, part)
        os.replace(part, path)

    def main(rank):
        torch.manual_seed(1)
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.Adam(model.parameters())
        last = FOLDER / "last.pt"
        if last.exists():
            model.load_state_dict(torch.load(last)["model"])
        for step in range(100):
            torch.nn.functional.dropout(torch.ones(2))
            optimizer.step()
            if rank == 0:
                save(model, optimizer, last)
'''  # fmt: skip


def hints(tmp_path: Path, text: str, world_size: int = 2, command: str = "python train.py --epochs 3") -> list[Hint]:
    (tmp_path / "train.py").write_text(textwrap.dedent(text))
    return read_hints(read_script(tmp_path, command), world_size, command)


def line_of(text: str, part: str) -> int:
    return next(number for number, line in enumerate(textwrap.dedent(text).splitlines(), 1) if part in line)


def test_script_that_does_it_right_has_no_hint(tmp_path: Path):
    assert hints(tmp_path, RIGHT) == []


ADAM = "optimizer = torch.optim.Adam(model.parameters())"


@pytest.mark.parametrize(
    ("code", "removed", "put", "at"),
    [
        ("no-load", 'model.load_state_dict(torch.load(last)["model"])', "pass", "torch.save"),
        ("save-not-atomic", "os.replace(part, path)", "pass", "torch.save"),
        ("optimizer-not-saved", '"optimizer": optimizer.state_dict(), ', "", "torch.save"),
        ("random-states-not-saved", ', "random": torch.get_rng_state()', "", "torch.save"),
        ("no-seed", "torch.manual_seed(1)", "pass", "torch.nn.Linear"),
        ("save-on-every-rank", "if rank == 0:", "if step % 10 == 0:", "torch.save"),
        ("path-outside-checkpoint-folder", "torch.save(state, part)", "torch.save(state, 'last.pt')", "torch.save"),
        ("schedule-not-saved", ADAM, f"{ADAM}; s = torch.optim.lr_scheduler.StepLR(optimizer, 1)", "torch.save"),
    ],
)
def test_defect_is_named_with_its_line(tmp_path: Path, code: str, removed: str, put: str, at: str):
    assert removed in RIGHT
    broken = RIGHT.replace(removed, put)
    found = hints(tmp_path, broken)
    assert [(hint.code, hint.file, hint.line) for hint in found if hint.code == code] == [
        (code, "train.py", line_of(broken, at))
    ]


def test_samplers_and_loaders_without_an_order_of_their_own_are_named(tmp_path: Path):
    script = """
    import torch
    from torch.utils.data import DataLoader, DistributedSampler
    torch.manual_seed(1)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, sampler=sampler)
    other = DataLoader(data, shuffle=True)
    still = DataLoader(data, shuffle=False)
    """
    found = [(hint.code, hint.line) for hint in hints(tmp_path, script)]
    assert ("sampler-without-set-epoch", 5) in found
    assert [line for code, line in found if code == "shuffle-without-generator"] == [7]


def test_calls_in_a_loop_that_log_without_a_step_are_named(tmp_path: Path):
    script = """
    import drumbeat
    from drumbeat import log
    for step in range(3):
        drumbeat.log(loss=1)
        log(accuracy=1)
        drumbeat.log(loss=1, step=step)
        drumbeat.log(**values)
    log(total=1)
    """
    assert [hint.line for hint in hints(tmp_path, script) if hint.code == "log-without-step"] == [5, 6]


def test_script_without_checkpoints_gets_a_hint_at_its_steps(tmp_path: Path):
    script = """
    import torch
    torch.manual_seed(1)
    for step in range(3):
        optimizer.step()
    """
    assert [(hint.code, hint.line) for hint in hints(tmp_path, script)] == [("no-save", 5)]


def test_modules_beside_the_script_are_read_too(tmp_path: Path):
    (tmp_path / "saving.py").write_text(
        "import torch\ndef save_checkpoint_of(m):\n    torch.save(m, 'checkpoint.pt')\n"
    )
    found = hints(tmp_path, "import saving\nwhile True:\n    saving.save_checkpoint_of(1)\n", world_size=1)
    assert ("path-outside-checkpoint-folder", "saving.py", 3) in [(hint.code, hint.file, hint.line) for hint in found]


def test_folder_that_the_command_names_is_not_judged(tmp_path: Path):
    script = "import torch\nfor n in range(3):\n    torch.save(n, 'checkpoint.pt')\n"
    command = "cd $DRUMBEAT_CHECKPOINT_DIR && python train.py"
    assert "path-outside-checkpoint-folder" not in [hint.code for hint in hints(tmp_path, script, command=command)]


@pytest.mark.parametrize("text", ["def broken(:", "\0", "x = 1"])
def test_unparsable_files_are_ignored(tmp_path: Path, text: str):
    hints(tmp_path, text)
    assert read_hints(read_script(tmp_path, "bash run.sh"), 2) == []


@pytest.mark.parametrize(("recipe", "script"), [("imagenet", "train_pytorch.py"), ("cifar10_deepspeed", "train.py")])
def test_recipes_with_checkpoints_have_no_hint_that_contradicts_them(recipe: str, script: str):
    found = read_hints(read_script(RECIPES / recipe, f"python {script}"), 4)
    assert [hint for hint in found if hint.code in ("no-save", "no-load", "optimizer-not-saved")] == []
