"""What is kept of the labelled set: of each case the facts and the verdict, without the paths of this machine."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from drumbeat.model import wire
from tools.hangs.scene import Finding

PAGE, GPU_PAGE = Path("docs/hang-set.md"), Path("docs/hang-set-gpu.md")
RECORDED, GPU_RECORDED = Path("tests/unit/core/hang_facts.json"), Path("tests/unit/core/hang_facts_gpu.json")
_PATHS = (
    (r'"file": "/[^"]*?/site-packages/', '"file": "/env/lib/python3/site-packages/'),
    (r'"file": "/[^"]*?/lib/python3[.]\d+/', '"file": "/usr/lib/python3.11/'),
    (r'"file": "/[^"]*?/train[.]py', '"file": "/job/train.py'),
    (r'"command": "[^"]*"', '"command": "python /job/train.py"'),
)

_MAIN_FRAMES, _FRAMES = 30, 2
"""Frames that are kept of the main thread and of each other one; no verdict needs more."""

Record = dict[str, Any]


def load(path: Path = RECORDED) -> dict[str, Record]:
    """Returns what is kept, by case."""
    if not path.exists():
        return {}
    return {one["case"]: one for one in json.loads(path.read_text(encoding="utf-8"))}


def save(kept: dict[str, Record], path: Path = RECORDED) -> None:
    """Writes what is kept."""
    path.write_text(json.dumps([*kept.values()], separators=(",", ":")).replace('{"case"', '\n{"case"') + "\n")


def record(finding: Finding) -> Record:
    """Returns what is kept of a case."""
    answers = {node: wire.to_wire(facts) for node, facts in finding.facts.answers.items()}
    for process in (process for one in answers.values() for rank in one["ranks"] for process in rank["processes"]):
        for number, thread in enumerate(process["threads"]):
            del thread["frames"][_FRAMES if number else _MAIN_FRAMES :]
    text = json.dumps(answers)
    for pattern, plain in _PATHS:
        text = re.sub(pattern, plain, text)
    case, verdict = finding.case, finding.verdict
    return {
        "case": case.name,
        "ranks": case.ranks,
        "is_hang": case.is_hang,
        "is_right": finding.is_right,
        "verdict": {"stillness": verdict.stillness.value, "sentence": verdict.sentence, "rank": verdict.rank},
        "answers": json.loads(text),
    }
