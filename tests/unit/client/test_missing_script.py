"""The script that a command begins with, looked for in the code folder."""

from pathlib import Path

import pytest

from drumbeat.client.local_notes import missing_script, started_script


@pytest.mark.parametrize(
    ("line", "script"),
    [
        ("python train.py --lr 1", "train.py"),
        ("A=1 /usr/bin/python3.11 -u -W ignore src/train.py", "src/train.py"),
        ("torchrun --nproc_per_node 2 train.py --config c.yml", "train.py"),
        ("accelerate launch --multi_gpu train.py", "train.py"),
        ("bash -e run.sh", "run.sh"),
        ("./run", "./run"),
        ("python -m pkg train.py", ""),
        ("python -c 'print(1)'", ""),
        ("nvidia-smi", ""),
        ("echo 'open", ""),
        ("", ""),
    ],
)
def test_script_of_a_command_is_the_one_that_it_starts(line: str, script: str) -> None:
    assert started_script(line) == script


@pytest.mark.feature("J4")
@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("python trian.py", ("trian.py", "Did you mean `train.py`?")),
        ("cd src && python nope.py", ("nope.py", "")),
        ("cd src && python deep.py", None),
        ("python train.py && python later.py", None),
        ("python made.py; true", ("made.py", "")),
        ("python ${{inputs.script}}", None),
        ("python /opt/x.py", None),
        ("wget x.py && python x.py", None),
    ],
)
def test_missing_script_is_named_with_the_nearest(
    tmp_path: Path, command: str, missing: tuple[str, str] | None
) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "deep.py").touch()
    assert missing_script(command, tmp_path) == missing
