"""A path or a module of drumbeat that src names in prose is there."""

import ast
import re
from pathlib import Path

from drumbeat.jobfile.job import extensions, timeouts_and_retries
from tools.house_references import dead_references

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "drumbeat"
DOCS = [ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")]
PATHS = re.compile(r"(?<![\w./{}-])((?:[a-z]\w*/)+[a-z][\w-]*\.(?:py|tsx?))\b")
MODULES = re.compile(r"`([a-z][a-z_]*)`")
OTHERS = frozenset({"decide", "init", "model", "mpirun", "plan", "rank", "run"})
"""Words in backticks of a package's docstring that are no module beside it."""


def test_paths_in_prose_lead_to_files() -> None:
    files = [one for one in SOURCE.rglob("*.py") if one.parent.name != "incidents"]  # Those quote tracebacks of jobs.
    named = [(file, path) for file in files for path in PATHS.findall(file.read_text(encoding="utf-8"))]
    assert len(named) > 10
    lost = [
        f"{file.relative_to(SOURCE)}: {path}"
        for file, path in named
        if not any((above / path).exists() for above in [*file.parents, ROOT / "page"])
    ]
    assert lost == []


def test_docstrings_of_packages_name_modules_that_they_have() -> None:
    lost = []
    for file in SOURCE.rglob("__init__.py"):
        words = MODULES.findall(ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "")
        here = {one.stem for one in file.parent.iterdir()}
        lost += [f"{file.relative_to(SOURCE)}: {word}" for word in words if word not in here | OTHERS]
    assert lost == []


def test_references_in_prose_lead_to_modules_and_their_names() -> None:
    assert dead_references() == []


PLANTED = {
    "__init__.py": "",
    "core/__init__.py": '"""Decisions: see `life`.\n\nlife     the states\nblame    who failed first\n"""\n',
    "core/life.py": "class Job:\n    state: str\n\n\nclass Trial(Job):\n    pass\n\n\ndef decide(): ...\n",
    "agent/__init__.py": '"""- inbox, outbox: the calls"""\n',
    "agent/inbox.py": (
        '"""What `course.next_step` returns, by `drumbeat.core.life.decide` and core.life.Job.state."""\n\n'
        "# A comment, too: `life.Job.state`, `Trial.state`, `Job.reason`, agent.outbox.\n"
        'LIMIT = 3\n"""As `drumbeat.agent.limits` and core.life.Work say (`torch.save`, `plan.json`)."""\n'
    ),
}


def test_a_reference_to_what_is_not_there_is_found(tmp_path: Path) -> None:
    for name, text in PLANTED.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert sorted(dead_references(tmp_path)) == [
        "agent/__init__.py:1: outbox",
        "agent/inbox.py:1: course.next_step",
        "agent/inbox.py:3: Job.reason",
        "agent/inbox.py:3: agent.outbox",
        "agent/inbox.py:5: core.life.Work",
        "agent/inbox.py:5: drumbeat.agent.limits",
        "core/__init__.py:1: blame",
    ]


def test_each_key_of_the_drumbeat_table_says_where_it_acts() -> None:
    later = set(timeouts_and_retries.RecoverySettings.model_fields)
    for module, keys in (timeouts_and_retries, later), (extensions, set(extensions.Extensions.model_fields) - later):
        assert {key for key in keys if f"`{key}`" not in (module.__doc__ or "")} == set()


def test_paths_in_docs_lead_to_files() -> None:
    files = {
        f"/{one.relative_to(ROOT)}"
        for top in ("src", "page/src", "tools", "bench", "tests", "recipes")
        for one in (ROOT / top).rglob("*.*")
    }
    named = [(page, path) for page in DOCS for path in PATHS.findall(page.read_text(encoding="utf-8"))]
    where = ROOT / "docs" / "where.md"
    named += [(where, name) for name in re.findall(r"`([\w-]+\.(?:py|tsx?))`", where.read_text(encoding="utf-8"))]
    assert len(named) > 100
    assert [f"{page.name}: {path}" for page, path in named if not any(one.endswith(f"/{path}") for one in files)] == []
