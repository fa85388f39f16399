"""The stores of the staging benchmark, and how drumbeat and the others are told to read them."""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.stage_tools import aws, azcopy, fsspec_python, rclone, serving
from drumbeat.client import Client
from tests.real.started import free_ports
from tests.real.store_servers import an_azurite, an_s3_server

Command = Callable[[str, Path], Sequence[str | Path]]
"""The command line that brings a set of data into a folder."""

FSSPEC = """
import fsspec, json, os, sys, time
protocol, options, source, to = sys.argv[1:]
fs = fsspec.filesystem(protocol, **json.loads(options))
os.makedirs(to)
at = time.perf_counter()
files = fs.find(source)
fs.get(files, [os.path.join(to, file.rpartition("/")[2]) for file in files])
print(time.perf_counter() - at)
"""


@dataclass(frozen=True)
class Store:
    """One that has all sets of data. uri: of a set, as a job names it. others: by name, those that are here."""

    name: str
    uri: Callable[[str], str]
    others: Mapping[str, Command]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


def _fsspec(protocol: str, options: Mapping[str, str], source: Callable[[str], str]) -> dict[str, Command]:
    python = fsspec_python()
    told = json.dumps(options)
    return {"fsspec": lambda data, to: [python, "-c", FSSPEC, protocol, told, source(data), to]} if python else {}


def _rclone(source: Callable[[str], str], *options: str) -> dict[str, Command]:
    program = rclone()
    return (
        {"rclone": lambda data, to: [program, "copy", "--config", "/dev/null", *options, source(data), to]}
        if program
        else {}
    )


@contextlib.contextmanager
def web(client: Client, root: Path, folder: Path) -> Iterator[Store]:
    """Nginx. The server calls addresses of its own machine only where a datastore names them."""
    address = f"http://127.0.0.1:{free_ports(1)[0]}"
    client.create_datastore({"name": "web", "type": "http", "url": address}, check=False)
    with serving(root, address.removeprefix("http://"), folder):
        others = {
            **_fsspec("http", {}, lambda data: f"{address}/{data}/"),
            **_rclone(lambda data: f":http:{data}", "--http-url", address),
        }
        yield Store("a web server (nginx)", lambda data: f"{address}/{data}/", others)


@contextlib.contextmanager
def bucket(client: Client, root: Path, folder: Path) -> Iterator[Store]:
    """SeaweedFS."""
    folder.mkdir()
    with an_s3_server(folder) as server:
        name, send = server.bucket(), server.client()
        _fill(root, lambda path, content: send.put_object(Bucket=name, Key=path, Body=content))
        client.create_datastore(server.datastore("bucket", name))
        keys = {"key": server.key_id, "secret": server.key, "endpoint_url": server.endpoint}
        named = {
            "AWS_ACCESS_KEY_ID": server.key_id, "AWS_SECRET_ACCESS_KEY": server.key, "AWS_DEFAULT_REGION": "us-east-1",
        }  # fmt: skip
        others = {
            **_fsspec("s3", keys, lambda data: f"{name}/{data}"),
            **_rclone(
                lambda data: f":s3:{name}/{data}", "--s3-provider", "Other", "--s3-endpoint", server.endpoint,
                "--s3-env-auth",
            ),
        }  # fmt: skip
        if program := aws():
            words = ("s3", "cp", "--recursive", "--quiet", "--endpoint-url", server.endpoint)
            others["aws s3 cp"] = lambda data, to: [program, *words, f"s3://{name}/{data}", to]
        yield Store("an S3 bucket (SeaweedFS)", _in_datastore("bucket"), others, named)


@contextlib.contextmanager
def container(client: Client, root: Path, folder: Path) -> Iterator[Store]:
    """Azurite."""
    from azure.storage.blob import ContainerSasPermissions, generate_container_sas

    folder.mkdir()
    with an_azurite(folder) as azurite, azurite.service() as service:
        name = azurite.container()
        there = service.get_container_client(name)
        _fill(root, there.upload_blob)
        client.create_datastore(azurite.datastore("container", name))
        address = f"{azurite.endpoint}/{azurite.account}"
        sas = generate_container_sas(
            azurite.account, name, account_key=azurite.key, permission=ContainerSasPermissions(read=True, list=True),
            expiry=datetime.now(UTC) + timedelta(hours=2),
        )  # fmt: skip
        keys = f"AccountName={azurite.account};AccountKey={azurite.key}"
        whole = f"DefaultEndpointsProtocol=http;{keys};BlobEndpoint={address};"
        others = {
            **_fsspec("abfs", {"connection_string": whole}, lambda data: f"{name}/{data}"),
            **_rclone(lambda data: f":azureblob:{name}/{data}", "--azureblob-sas-url", f"{address}/{name}?{sas}"),
        }
        if program := azcopy():
            others["azcopy"] = lambda data, to: [
                *program, "copy", f"{address}/{name}/{data}?{sas}", to, "--recursive", "--from-to=BlobLocal",
                "--output-level=quiet",
            ]  # fmt: skip
        named = {"AZCOPY_LOG_LOCATION": str(folder), "AZCOPY_JOB_PLAN_LOCATION": str(folder)}
        yield Store("an Azure Blob container (Azurite)", _in_datastore("container"), others, named)


def _in_datastore(name: str) -> Callable[[str], str]:
    return lambda data: f"azureml://datastores/{name}/paths/{data}"


def _fill(root: Path, put: Callable[[str, bytes], object]) -> None:
    files = [file for file in root.rglob("*") if file.is_file()]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda file: put(str(file.relative_to(root)), file.read_bytes()), files))
