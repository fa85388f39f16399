"""How inputs and outputs come to their ranks: mounted from every store, in place, at a path of the job's, evaluated,
written by the ranks themselves.
"""
# ruff: noqa: F811 - fixtures of another module are imported, and are arguments

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drumbeat.model.errors import RefusedError
from drumbeat.node.inputs.mounting.unmounting import mounted, unmount

from .boxes import IMAGE, a_podman
from .house import House, a_house, contents, until
from .places import Place, netlab, slurm
from .store_servers import Azurite, S3Server, Sshd, WebServer, azurite, s3_server, sshd, web_server  # noqa: F401
from .test_mounts import tools  # noqa: F401

pytestmark = [pytest.mark.feature("D2"), pytest.mark.xdist_group("mounts")]

BIG = os.urandom(3 << 20)
FILES = {"a.csv": b"1\n", "sub/b.bin": BIG, "sub/ü #?%.csv": b"3\n"}
SHOW = "cd ${{inputs.data}} && find . -type f | LC_ALL=C sort && cat a.csv sub/*%.csv && md5sum < sub/b.bin"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for path, content in FILES.items():
        (tmp_path / "data" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / path).write_bytes(content)
    return tmp_path / "data"


@pytest.fixture
def own(own_house: House) -> Iterator[House]:
    yield own_house
    for point in mounted(str(own_house.folder)):
        unmount(point)


def run(house: House, name: str, **keys: str) -> str:
    """What rank 0 of a job printed, which did well."""
    keys.setdefault("command", SHOW)
    house.client.submit(house.job_file(name, **keys), name=name)
    ended = house.client.wait(name, 120)
    assert ended is not None, house.client.get(name).sentence
    assert ended.state == "completed", (ended.sentence, ended.verdict, house.logs(name))
    return house.logs(name)[0]


def story(house: House, name: str) -> list[str]:
    return [entry.sentence for entry in house.client.get(name).story]


# --- mounts -----------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("tools")
@pytest.mark.feature("D6")
def test_every_store_is_mounted_and_read_like_a_folder(
    own: House, data: Path, azurite: Azurite, s3_server: S3Server, sshd: Sshd, web_server: WebServer
):
    for path, content in FILES.items():
        web_server.put(f"digits/{path}", content)
    own.client.create_datastore(azurite.datastore("blobs", azurite.container()))
    own.client.create_datastore(s3_server.datastore("buckets", s3_server.bucket()))
    own.client.create_datastore(sshd.datastore("remote", sshd.folder))
    own.client.create_datastore(web_server.naming()["named"], check=False)
    places = {"web": f"{web_server.url}/digits"}
    for name in ("blobs", "buckets", "remote"):
        places[name] = f"azureml://datastores/{name}/paths/digits"
        own.client.upload_data(data, places[name])
    folder = run(own, "folder", inputs=f"{{data: {{path: '{data}'}}}}")
    assert hashlib.md5(BIG, usedforsecurity=False).hexdigest() in folder
    for name, place in places.items():
        inputs = f"{{data: {{path: '{place}', mode: ro_mount}}}}"
        assert run(own, f"mounts-{name}", inputs=inputs) == folder
        told = [line for line in story(own, f"mounts-{name}") if "input data is mounted: " in line]
        assert len(told) == 1, story(own, f"mounts-{name}")
        assert "were read through it (" in told[0]
    until(lambda: not list((own.home / "nodes").glob("*")), what="the end of the jobs' folders")
    assert mounted(str(own.folder)) == []


def forget(folder: Path) -> None:
    """Whoever reads a file of it next, reads it not from memory."""
    for place in folder.iterdir():
        with place.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.mark.usefixtures("tools")
@pytest.mark.thorough
def test_ranks_read_on_while_the_server_is_down_and_the_mount_goes_when_it_is_back(
    own: House, web_server: WebServer, tmp_path: Path
):
    for number in range(50):
        web_server.put(f"digits/{number}", os.urandom(50_000))
    own.client.create_datastore(web_server.naming()["named"], check=False)
    command = f"touch {tmp_path}/held; until test -e {tmp_path}/go; do sleep 0.05; done; "
    command += f"cat ${{{{inputs.data}}}}/* | wc -c > {tmp_path}/read"
    inputs = f"{{data: {{path: '{web_server.url}/digits', mode: ro_mount}}}}"
    own.client.submit(own.job_file("down", command=command, inputs=inputs), name="down")
    until((tmp_path / "held").exists, what="its ranks")
    for place in mounted(str(own.folder)):
        forget(Path(place))
    own.server().kill()
    (tmp_path / "go").touch()
    until(lambda: (tmp_path / "read").exists() and (tmp_path / "read").read_text().strip(), what="what it has read")
    assert (tmp_path / "read").read_text().split() == ["2500000"]
    assert mounted(str(own.folder)), "the agent waits for its server"
    done = own.run("wait", "down")  # Starts another one.
    assert done.returncode == 0, done.stdout + done.stderr
    until(lambda: not list((own.home / "nodes").glob("*")), what="the end of its folder")
    assert mounted(str(own.folder)) == []


@pytest.mark.usefixtures("tools")
@pytest.mark.feature("C4")
@pytest.mark.parametrize("where", [netlab, slurm], ids=["netlab", "slurm"])
@pytest.mark.thorough
def test_nodes_of_clusters_mount_for_themselves(
    where: Callable[[Path], contextlib.AbstractContextManager[Place]],
    web_server: WebServer,
    tmp_path_factory: pytest.TempPathFactory,
):
    for path, content in FILES.items():
        web_server.put(f"digits/{path}", content)
    folder = tmp_path_factory.mktemp("m")
    with where(folder) as place:
        place.house.client.create_datastore(web_server.naming()["named"], check=False)
        inputs = f"{{data: {{path: '{web_server.url}/digits', mode: ro_mount}}}}"
        said = run(place.house, "m", compute=place.compute, inputs=inputs, resources="{instance_count: 2}")
        assert hashlib.md5(BIG, usedforsecurity=False).hexdigest() in said
        assert any("input data is mounted: " in line for line in story(place.house, "m")), story(place.house, "m")
        until(lambda: not place.processes(), what="the end of the gang")
    assert mounted(str(folder)) == []


@pytest.mark.thorough
def test_a_plan_says_that_it_is_mounted_only_where_it_is_asked_for(own: House):
    place = "azureml://datastores/workspaceblobstore/paths/x"
    said = {}
    for mode in ("", ", mode: ro_mount", ", mode: download"):
        file = own.job_file("plans", command="echo done", inputs=f"{{data: {{path: 'https://host/x'{mode}}}}}")
        said[mode] = " ".join(own.run("plan", file).stdout.split())
    assert "https://host/x, fetched once to every node and kept in its cache" in said[""]
    assert said[", mode: download"].count("mount") == 0
    wanted = "mounted read-only on every node that has rclone and FUSE, else fetched once to every node"
    assert wanted in said[", mode: ro_mount"]
    assert "of a mount each read goes to the store; with `mode: download`" in said[", mode: ro_mount"]
    file = own.job_file("shares", command="echo done", inputs=f"{{data: {{path: '{place}'}}}}")
    assert "used in place where a node sees that very folder, else fetched" in " ".join(
        own.run("plan", file).stdout.split()
    )


# --- in place ---------------------------------------------------------------------------------------------------
@pytest.mark.feature("D1", "D5")
def test_a_folder_datastore_is_used_in_place_and_copied_on_request(own: House, data: Path):
    own.client.create_datastore({"name": "share", "type": "folder", "path": str(data.parent)})
    command = f"echo ${{{{inputs.data}}}} && {SHOW}"
    place = "azureml://datastores/share/paths/data"
    lines = run(own, "in-place", command=command, inputs=f"{{data: {{path: '{place}'}}}}").splitlines()
    assert lines[0] == str(data)
    assert f"node 0: input data is used in place: {data}" in story(own, "in-place")
    one = "{data: {path: 'azureml://datastores/share/paths/data/a.csv', type: uri_file, mode: ro_mount}}"
    assert run(own, "file", command="echo ${{inputs.data}}", inputs=one) == f"{data}/a.csv\n"
    copied = run(own, "copied", command=command, inputs=f"{{data: {{path: '{place}', mode: download}}}}").splitlines()
    assert copied[0].startswith(str(own.home))
    assert copied[1:] == lines[1:]


def test_what_the_job_does_not_see_as_it_was_listed_is_fetched(own: House, data: Path):
    """What drumbeat itself wrote into a folder has a manifest beside the files: the ranks see the files alone."""
    (data.parent / "share").mkdir()
    own.client.create_datastore({"name": "share", "type": "folder", "path": str(data.parent / "share")})
    own.client.upload_data(data, "azureml://datastores/share/paths/up")
    said = run(own, "fetched", inputs="{data: {path: 'azureml://datastores/share/paths/up'}}")
    assert "manifest" not in said
    assert not [line for line in story(own, "fetched") if "in place" in line]


# --- path_on_compute --------------------------------------------------------------------------------------------
@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A path that isn't there, nor the folder that it is in."""
    return tmp_path / f"at-{uuid.uuid4().hex}" / "data"


def test_inputs_and_outputs_appear_where_the_job_wants_them_and_only_while_it_runs(own: House, data: Path, place: Path):
    command = f"test ${{{{inputs.data}}}} = {place} && cat {place}/a.csv && echo 7 > {place}-out/r$RANK && "
    command += "test $AZURE_ML_OUTPUT_out = ${{outputs.out}}"
    said = run(
        own, "appears", command=command, inputs=f"{{data: {{path: '{data}', path_on_compute: 'file:{place}'}}}}",
        outputs=f"{{out: {{path_on_compute: 'file:{place}-out'}}}}", resources="{instance_count: 2}",
    )  # fmt: skip
    assert said == "1\n"
    kept = own.client.download("appears", own.folder / "got")
    assert kept is not None
    assert sorted(path.name for path in (own.folder / "got").rglob("r*")) == ["r0", "r1"]
    until(lambda: not place.parent.exists(), what="the end of what was made there")


def test_what_is_there_already_is_left_alone_and_refused(own: House, data: Path, place: Path):
    place.mkdir(parents=True)
    (place / "mine").write_text("mine")
    inputs = f"{{data: {{path: '{data}', path_on_compute: 'file:{place}'}}}}"
    own.client.submit(own.job_file("taken", command="echo done", inputs=inputs), name="taken")
    ended = own.client.wait("taken", 60)
    assert ended is not None
    assert ended.state == "failed"
    assert f"there is something at {place} on this node already" in ended.sentence
    assert (place / "mine").read_text() == "mine"


@pytest.mark.parametrize(
    "written",
    ["file:/a/../b", "file:/", "data/x", "/proc/x", "https://host/x"],
)
@pytest.mark.thorough  # tests/unit/core/test_inputs.py has all of them.
def test_a_path_that_can_be_none_is_refused(own: House, data: Path, written: str):
    file = own.job_file(
        "bad", command="echo done", inputs=f"{{data: {{path: '{data}', path_on_compute: '{written}'}}}}"
    )
    done = own.run("plan", file)
    assert done.returncode != 0
    assert "path_on_compute" in done.stdout + done.stderr


@pytest.mark.usefixtures("tools")
@pytest.mark.feature("E1")
@pytest.mark.thorough
def test_ranks_in_containers_have_mounts_and_paths_of_their_own(
    web_server: WebServer, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
):
    web_server.put("digits/a.csv", b"1\n")
    folder = tmp_path_factory.mktemp("boxed")
    with a_podman(tmp_path_factory.mktemp("podman")) as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        with a_house(folder) as house:
            house.client.create_datastore(web_server.naming()["named"], check=False)
            run(
                house, "boxed", command="cat /data/here/a.csv && echo ${{inputs.data}} > ${{outputs.out}}/x",
                environment=f"{{image: '{IMAGE}'}}",
                inputs=f"{{data: {{path: '{web_server.url}/digits', mode: ro_mount, path_on_compute: /data/here}}}}",
                outputs="{out: {path_on_compute: 'file:/result'}}",
            )  # fmt: skip
            house.client.download("boxed", folder / "got")
            assert [path.read_text() for path in (folder / "got").rglob("x")] == ["/data/here\n"]
            assert any("input data is mounted" in line for line in story(house, "boxed"))
            until(lambda: not list((house.home / "nodes").glob("*")), what="the end of its folder")
    assert not Path("/data/here").exists()
    assert mounted(str(folder)) == []


# --- mltable ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", ["eval_mount", pytest.param("eval_download", marks=pytest.mark.thorough)])
@pytest.mark.usefixtures("tools")
def test_the_files_of_a_table_come_from_several_stores(own: House, mode: str, azurite: Azurite, tmp_path: Path):
    own.client.create_datastore(azurite.datastore("blobs", azurite.container()))
    own.client.create_datastore({"name": "share", "type": "folder", "path": str(tmp_path)})
    images, table = tmp_path / "images", tmp_path / "table"
    for folder in (images / "cats", table / "own"):
        folder.mkdir(parents=True)
    for path in (images / "cats" / "1.jpg", images / "cats" / "no.txt", images / "x.jpg", table / "own" / "l.csv"):
        path.write_text(path.name)
    own.client.upload_data(images, "azureml://datastores/blobs/paths/pics")
    (table / "MLTable").write_text(
        "paths:\n- folder: ./own\n- pattern: azureml://datastores/blobs/paths/pics/cats/*.jpg\n"
        "- file: azureml://datastores/share/paths/images/x.jpg\ntransformations:\n- read_text\n"
    )
    place = "azureml://datastores/share/paths/table"
    said = run(
        own, "table", command="cd ${{inputs.data}} && find . -type f | LC_ALL=C sort | xargs grep -H .",
        inputs=f"{{data: {{type: mltable, path: '{place}', mode: {mode}}}}}",
    )  # fmt: skip
    assert said.splitlines() == [
        "./blobs/pics/cats/1.jpg:1.jpg", "./own/l.csv:l.csv", "./share/images/x.jpg:x.jpg"
    ]  # fmt: skip
    assert any("is mounted" in line for line in story(own, "table")) is (mode == "eval_mount")


@pytest.mark.thorough
def test_a_table_that_chooses_among_files_is_refused(own: House, tmp_path: Path):
    own.client.create_datastore({"name": "share", "type": "folder", "path": str(tmp_path)})
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "x").write_text("x")
    (tmp_path / "table" / "MLTable").write_text("paths:\n- file: ./x\ntransformations:\n- take: 1\n")
    inputs = "{data: {type: mltable, path: 'azureml://datastores/share/paths/table', mode: eval_download}}"
    own.client.submit(own.job_file("takes", command="echo done", inputs=inputs), name="takes")
    ended = own.client.wait("takes", 60)
    assert ended is not None
    assert "its transformation `take` selects files" in ended.sentence


# --- outputs that the ranks write -------------------------------------------------------------------------------
PUT = """
import os, urllib.request
url = os.environ["AZURE_ML_OUTPUT_model"]
headers = {"x-ms-blob-type": "BlockBlob"} if "/drumbeattests/" in url else {}
def put(address):
    asked = urllib.request.Request(address, b"weights", headers, method="PUT")
    return urllib.request.urlopen(asked, timeout=60).status
print(put(url))
try:
    print(put(url.replace("w.bin", "other.bin")))
except OSError as error:
    print(error.code)
"""


@pytest.mark.feature("D3", "X2")
def test_ranks_write_a_file_by_a_link_for_it_alone(own: House, azurite: Azurite, s3_server: S3Server):
    own.client.create_datastore(azurite.datastore("blobs", azurite.container()))
    own.client.create_datastore(s3_server.datastore("buckets", s3_server.bucket()))
    for store, status in (("blobs", "201"), ("buckets", "200")):
        name, place = f"writes-{store}", f"azureml://datastores/{store}/paths/m/w.bin"
        own.script(PUT, job=name)
        said = run(
            own, name, command='test -n "${{outputs.model}}" && python t.py', code=".",
            outputs=f"{{model: {{type: uri_file, mode: direct, path: '{place}', name: 'model-{store}'}}}}",
        )  # fmt: skip
        assert said.split() == [status, "403"], "one file, and no other"
        until(lambda job=name: any("known as" in line for line in story(own, job)), what="its name")
        got = own.folder / store
        own.client.download_data(f"azureml:model-{store}@latest", got)
        assert [path.read_bytes() for path in got.rglob("*") if path.is_file()] == [b"weights"]
    until(lambda: not list((own.home / "nodes").glob("*")), what="the end of the nodes' folders")
    assert [path for path, told in contents(own.home) if b"sig=" in told or b"X-Amz-Signature=" in told] == []


NOT_DIRECT = {
    "{mode: direct}": "names no place in a store",
    "{mode: direct, path: 'azureml://datastores/default/paths/x'}": "stores sign links for one file at a time",
    "{mode: direct, type: uri_file, path: 'azureml://datastores/default/paths/x'}":
        "a store of type `folder` can't create links for writing",
}  # fmt: skip


@pytest.mark.feature("D3")
def test_what_cannot_be_direct_is_refused_before_anything_starts(own: House):
    for output, said in NOT_DIRECT.items():
        with pytest.raises(RefusedError, match=said):
            own.client.submit(own.job_file("bad", command="echo done", outputs=f"{{o: {output}}}"))
    assert own.client.list() == []
