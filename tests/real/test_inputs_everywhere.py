"""One job file, its input in every place that there is, on every kind of node: the ranks read the same."""
# ruff: noqa: F811 - fixtures of another module are imported, and are arguments

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from .house import House, a_house
from .places import netlab, slurm
from .store_servers import Azurite, S3Server, WebServer, azurite, s3_server, web_server  # noqa: F401

pytestmark = [pytest.mark.feature("D2", "D5", "C4")]

FILES = {"a.csv": b"1\n", "sub/b.csv": b"2\n" * 400_000, "sub/ü #?%.csv": b"3\n"}
COMMAND = "cd ${{inputs.data}} && find . -type f | LC_ALL=C sort && cat a.csv sub/*%.csv && md5sum < sub/b.csv"


@contextlib.contextmanager
def local(folder: Path) -> Iterator[tuple[House, str]]:
    with a_house(folder) as house:
        yield house, "local"


@contextlib.contextmanager
def lab(folder: Path) -> Iterator[tuple[House, str]]:
    with netlab(folder) as place:
        yield place.house, place.compute


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[tuple[House, str]]:
    with slurm(folder) as place:
        yield place.house, place.compute


@pytest.mark.thorough
@pytest.mark.parametrize("where", [local, lab, cluster], ids=["local", "netlab", "slurm"])
def test_the_same_job_reads_its_input_wherever_it_lies(
    where: Callable[[Path], contextlib.AbstractContextManager[tuple[House, str]]],
    azurite: Azurite,
    s3_server: S3Server,
    web_server: WebServer,
    tmp_path_factory: pytest.TempPathFactory,
):
    folder = tmp_path_factory.mktemp("in")  # Slurm has sockets below it, whose paths mustn't be long.
    data = folder / "data"
    for path, content in FILES.items():
        (data / path).parent.mkdir(parents=True, exist_ok=True)
        (data / path).write_bytes(content)
        web_server.put(f"digits/{path}", content)
    with where(folder) as (house, compute):
        said = {
            name: run(house, compute, name, path)
            for name, path in given(house, compute, data, azurite, s3_server, web_server).items()
        }
    assert said["folder"].splitlines()[:5] == ["./a.csv", "./sub/b.csv", "./sub/ü #?%.csv", "1", "3"]
    assert said == dict.fromkeys(said, said["folder"])


def given(
    house: House, compute: str, data: Path, azurite: Azurite, s3_server: S3Server, web_server: WebServer
) -> dict[str, str]:
    """The same content in each place, by its path in a job file."""
    container, bucket = azurite.container(), s3_server.bucket()
    house.client.create_datastore(web_server.naming()["named"], check=False)
    house.client.create_datastore(azurite.datastore("blobs", container))
    house.client.upload_data(data, "azureml://datastores/blobs/paths/digits")
    house.client.create_datastore(azurite.datastore("shared", container, sas_token=sas(azurite, container)))
    house.client.create_datastore(s3_server.datastore("buckets", bucket, "below"))
    house.client.upload_data(data, "azureml://datastores/buckets/paths/digits")
    house.client.create_data({"name": "digits", "path": str(data)})
    writes = house.job_file(
        "writes", command="cp -r ${{inputs.data}}/. ${{outputs.copy}}", outputs="{copy: {}}", compute=compute,
        inputs=f"{{data: {{path: '{data}'}}}}",
    )  # fmt: skip
    finish(house, house.client.submit(writes, name="writes").name)
    return {
        "folder": str(data),
        "http": f"{web_server.url}/digits",
        "azure-key": "azureml://datastores/blobs/paths/digits",
        "azure-sas": "azureml://datastores/shared/paths/digits",
        "s3": "azureml://datastores/buckets/paths/digits",
        "asset": "azureml:digits@latest",
        "job": "azureml://jobs/writes/outputs/copy/paths/",
    }


def sas(azurite: Azurite, container: str) -> str:
    """A token that reads and lists one container, for an hour."""
    from azure.storage.blob import ContainerSasPermissions, generate_container_sas

    return generate_container_sas(
        azurite.account, container, account_key=azurite.key,
        permission=ContainerSasPermissions(read=True, list=True), expiry=datetime.now(UTC) + timedelta(hours=1),
    )  # fmt: skip


def run(house: House, compute: str, name: str, path: str) -> str:
    """What every rank of a job on two nodes printed, which is the same."""
    file = house.job_file(
        name, command=COMMAND, compute=compute, inputs=f"{{data: {{path: '{path}'}}}}", resources="{instance_count: 2}"
    )
    finish(house, house.client.submit(file, name=f"reads-{name}").name)
    logs = {rank: text for rank, text in house.logs(f"reads-{name}").items() if rank >= 0}
    assert sorted(logs) == [0, 1]
    assert logs[0] == logs[1]
    return logs[0]


def finish(house: House, name: str) -> None:
    ended = house.client.wait(name, 120)
    assert ended is not None, house.client.get(name).sentence
    assert ended.state == "completed", (ended.sentence, ended.verdict)
