"""The built wheel in an empty virtual environment: first the light client, then with a server, then the first job."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat import __version__
from drumbeat.server.page.docs import docs_files

from .house import a_house
from .installation import Installation, build_wheel, download_dependencies

README = Path(__file__).parents[2] / "README.md"

pytestmark = [pytest.mark.feature("U1"), pytest.mark.timeout(900)]

FIRST_JOB = """\
command: echo "rank $RANK of $WORLD_SIZE" && cp note.txt outputs/
code: .
distribution: {type: pytorch, process_count_per_instance: 2}
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def store(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels of all dependencies."""
    return download_dependencies(wheel, tmp_path_factory.mktemp("pins"))


@pytest.fixture(scope="module")
def installation(wheel: Path, store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """The light client, installed as `pip install drumbeat` does."""
    folder = tmp_path_factory.mktemp("away from the checkout")
    with a_house(folder) as house:
        there = Installation.empty(folder / "venv", house.home)
        there.install(str(wheel), store)
        yield there


def test_wheel_holds_agent_and_migrations_and_no_tests(wheel: Path):
    names = zipfile.ZipFile(wheel).namelist()
    folders = {name.partition("/")[0] for name in names}
    assert folders == {"drumbeat", f"drumbeat-{__version__}.dist-info"}
    assert "drumbeat/node/agent/__main__.py" in names
    assert "drumbeat/py.typed" in names
    here = Path(__file__).parents[2] / "src" / "drumbeat" / "server" / "database" / "migrations" / "versions"
    migrations = {f"drumbeat/server/database/migrations/versions/{file.name}" for file in here.glob("*.py")}
    assert migrations
    assert migrations <= set(names)
    assert not [name for name in names if "test_" in name or name.endswith((".pyc", ".orig"))]


def test_wheel_holds_every_file_that_the_page_names(wheel: Path):
    archive, folder = zipfile.ZipFile(wheel), "drumbeat/server/page/built/"
    built = {name.removeprefix(folder) for name in archive.namelist() if name.startswith(folder)}
    index = archive.read(f"{folder}index.html").decode()
    named = set(re.findall(r'(?:src|href)="/ui/(assets/[^"]+)"', index))
    scripts = [archive.read(folder + name).decode() for name in built if name.endswith(".js")]
    chunks = {f"assets/{name}" for text in scripts for name in re.findall(r"[\w-]+-[\w-]{8}\.(?:js|css)", text)}
    assert len(named) > 2
    assert len(chunks) > 5
    assert named | chunks <= built
    here = Path(__file__).parents[2] / "src" / "drumbeat" / "server" / "page" / "built"
    assert built == {str(file.relative_to(here)) for file in here.rglob("*") if file.is_file()}


def test_wheel_holds_the_documentation_that_the_page_shows(wheel: Path):
    folder = "drumbeat/server/page/docs/"
    names = {name.removeprefix(folder) for name in zipfile.ZipFile(wheel).namelist() if name.startswith(folder)}
    assert names == set(docs_files())
    assert {"docs/sweeps.md", "docs/images/page-job.png"} <= names
    (about,) = (name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".dist-info/METADATA"))
    assert README.read_text() in zipfile.ZipFile(wheel).read(about).decode()


@pytest.mark.thorough
def test_light_client_knows_its_version_and_says_what_a_server_needs(installation: Installation, tmp_path: Path):
    version = installation.run("drumbeat", "--version")
    assert version.stdout == f"drumbeat {__version__}\n"
    (tmp_path / "job.yml").write_text(FIRST_JOB)
    for words in (["run", "job.yml"], ["list"], ["server", "start"]):
        refused = installation.run("drumbeat", *words, cwd=tmp_path)
        assert refused.returncode != 0
        assert "this Python has drumbeat's client only: a server also needs alembic, " in refused.stderr
        assert "Install them: pip install 'drumbeat[server]'" in refused.stderr
        assert "DRUMBEAT_SERVER" in refused.stderr
        assert "Traceback" not in refused.stderr + refused.stdout
    program = "from drumbeat import Client, command; print(command(command='true').command)"
    assert installation.run("python", "-c", program).stdout == "true\n"


def test_first_job_runs_on_the_wheel_with_a_server(
    installation: Installation, wheel: Path, store: Path, tmp_path: Path
):
    installation.install(f"{wheel}[server]", store)
    (tmp_path / "job.yml").write_text(FIRST_JOB)
    (tmp_path / "note.txt").write_text("kept")
    ran = installation.run("drumbeat", "run", "job.yml", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "rank 0 of 2" in ran.stdout
    assert "rank 1 of 2" in ran.stdout
    brought = installation.run("drumbeat", "download", "@last", "--to", tmp_path / "results")
    assert brought.returncode == 0, brought.stderr
    assert [file.read_text() for file in (tmp_path / "results").rglob("note.txt")] == ["kept"]
    # What goes to nodes of other hosts is made of the installed package, too.
    program = "from drumbeat.engines.agent_archive import agent_archive; print(len(agent_archive().content))"
    made = installation.run("python", "-c", program)
    assert int(made.stdout) > 100_000, made.stderr
    assert installation.run("drumbeat", "server", "stop").returncode == 0
