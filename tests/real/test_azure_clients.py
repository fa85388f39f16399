"""The unmodified `azure-ai-ml` in three releases, with a drumbeat server in the place of Azure."""

from __future__ import annotations

import json
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from drumbeat.model.states import State
from tools.kept_programs import AZURE_MLFLOW

from . import azure_clients
from .azure_clients import NEWEST, OLDER, SHARED, prepare, run_script
from .store_servers import an_azurite

pytestmark = [pytest.mark.real, pytest.mark.feature("A1")]


def test_unchanged_script_submits_streams_and_downloads_a_job_of_two_nodes(own_house):
    prepare(own_house)
    name = run_script(own_house, "thread").stdout.split()[-1]
    job = own_house.client.get(name)
    assert (job.state, job.world_size, job.experiment) == (State.COMPLETED, 4, "azure-thread")
    unset = own_house.run("azure", "env", "--unset").stdout.split()
    assert unset[0] == "unset"
    assert {*azure_clients.variables(own_house)} <= {*unset[1:]}


@pytest.mark.thorough
@pytest.mark.parametrize("version", OLDER)
def test_unchanged_script_does_the_same_with_an_earlier_release(own_house, version):
    prepare(own_house)
    run_script(own_house, "thread", version)


def copied_scripts(folder: Path) -> list[str]:
    """The scripts that also run with drumbeat's imports, in a folder of their own; their names."""
    shutil.copytree(SHARED, folder, dirs_exist_ok=True)
    return sorted(path.name for path in SHARED.glob("?_*.py"))


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", [NEWEST, *OLDER])
def test_scripts_for_each_operation_pass_unchanged(own_house, version):
    own_house.client.set_alias("environment", "toy-env", "current")
    prepare(own_house)
    for name in copied_scripts(own_house.folder):
        run_script(own_house, own_house.folder / name, version)


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", [NEWEST, *OLDER])
def test_large_file_and_many_files_arrive_and_come_back_byte_for_byte(own_house, version):
    prepare(own_house)
    for folder, count, size in (("one", 1, 70 << 20), ("many", 126, 10_000)):
        place = own_house.folder / folder
        place.mkdir()
        for number in range(count):
            (place / f"{number} ä#%+&.bin").write_bytes(random.Random(number).randbytes(size))
    server = own_house.server()
    before = server.memory_info().rss
    run_script(own_house, "transfers", version)
    assert server.memory_info().rss - before < 200 << 20


@pytest.mark.thorough
def test_datastore_of_an_own_account_is_made_filled_read_and_written_by_a_job(own_house, tmp_path):
    prepare(own_house)
    (own_house.folder / "words").mkdir()
    for name, text in (("1", "one "), ("2", "two\n")):
        (own_house.folder / "words" / f"{name}.txt").write_text(text)
    with an_azurite(tmp_path) as azurite:
        container = azurite.container()
        held = {"account": azurite.account, "container": container, "endpoint": azurite.endpoint, "key": azurite.key}
        (own_house.folder / "store.json").write_text(json.dumps(held))
        run_script(own_house, "own_store")
        with azurite.service() as service:
            blobs = {one.name.rpartition("/")[2] for one in service.get_container_client(container).list_blobs()}
    assert {"1.txt", "2.txt", "all.txt"} <= blobs


@pytest.mark.thorough
def test_mlflow_with_azures_plugin_keeps_runs_with_metrics_and_files(own_house):
    prepare(own_house)
    run_script(own_house, "mlflow_plugin", program=AZURE_MLFLOW)


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_four_clients_at_once_each_get_their_own_job(own_house):
    prepare(own_house)
    folders = [own_house.folder / str(number) for number in range(4)]
    for folder in folders:
        folder.mkdir()
        shutil.copy(own_house.folder / "config.json", folder)
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda folder: run_script(own_house, "thread", folder=folder), folders))
    assert len({one.stdout for one in done}) == len(folders)
