"""Shares on a node: what the kernel says is mounted, what differs, what answers, and how a share is mounted."""

from pathlib import Path

import pytest

from drumbeat.model.shares import SharePlan
from drumbeat.node.inputs.missing_share import MissingShareError
from drumbeat.node.inputs.shares import MountPoint, difference, mount_command, mounted_at, require

pytestmark = pytest.mark.feature("D9")
MOUNTINFO = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /data rw,relatime shared:2 - nfs4 filer:/export rw,vers=4.2
31 22 0:41 / /my\\040data rw,nosuid - fuse.sshfs ada@gate:/srv/my\\040data rw,user_id=0
32 22 0:42 / /smb rw - cifs //filer/export rw
33 22 0:43 / /bucket rw - fuse.rclone lake:bucket rw
34 30 0:44 / /data rw - tmpfs none rw
"""


def share(type: str = "nfs", path: str = "/data", source: str = "", **more: object) -> SharePlan:
    return SharePlan("data", type, path, source, bool(more.get("mount")), writable=bool(more.get("writable")))


def test_mount_is_read_from_mountinfo_and_the_last_one_counts() -> None:
    assert mounted_at("/data/", MOUNTINFO) == MountPoint("/data", "tmpfs", "none")
    assert mounted_at("/my data", MOUNTINFO) == MountPoint("/my data", "fuse.sshfs", "ada@gate:/srv/my data")
    assert mounted_at("/data/inner", MOUNTINFO) is None
    assert mounted_at("/", MOUNTINFO) == MountPoint("/", "ext4", "/dev/sda1")


@pytest.mark.parametrize(
    ("wanted", "there", "said"),
    [
        (share(source="filer:/export"), MountPoint("/data", "nfs4", "filer:/export/"), ""),
        (
            share(source="filer:/export"),
            MountPoint("/data", "nfs4", "old:/export"),
            "old:/export is mounted at /data, not",
        ),
        (share(), MountPoint("/data", "tmpfs", "none"), "a file system of type tmpfs is mounted at /data, not one of"),
        (share(), None, "nothing is mounted at /data"),
        (share("smb"), MountPoint("/data", "cifs", "//filer/x"), ""),
        (share("s3", source="lake:b"), MountPoint("/data", "fuse.rclone", ":s3{aB}:b"), ""),
        (share("sshfs"), MountPoint("/data", "fuse.rclone", "x:"), "not one of type sshfs"),
        (share("path"), None, ""),
    ],
)
def test_mount_of_something_else_is_told_apart(wanted: SharePlan, there: MountPoint | None, said: str) -> None:
    assert difference(wanted, there).startswith(said) or said in difference(wanted, there)
    assert bool(difference(wanted, there)) == bool(said)


def test_sshfs_gives_up_on_a_broken_link_and_asks_for_no_password() -> None:
    plan = SharePlan("d", "sshfs", "/data", "ada@gate:/srv", mount=True, options=("port=2222",))
    assert mount_command(plan) == [
        "sshfs", "-o", "BatchMode=yes,reconnect,ServerAliveInterval=3,ServerAliveCountMax=2,port=2222", "ada@gate:/srv",
        "/data",
    ]  # fmt: skip


def test_rclone_mounts_a_remote_of_the_nodes_own_configuration() -> None:
    command = mount_command(SharePlan("d", "s3", "/data", "lake:b", mount=True, options=("read-only",)))
    assert command[:5] == ["rclone", "mount", "lake:b", "/data", "--daemon"]
    assert command[-1] == "--read-only"


def test_folder_that_is_there_answers(tmp_path: Path) -> None:
    said: list[str] = []
    require([share("path", str(tmp_path), writable=True)], said.append)
    assert said == [f"share data: looking at {tmp_path}"]


def test_folder_that_is_not_there_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(MissingShareError, match=r"share data: .*/none can't be read: .*No such file") as told:
        require([share("path", f"{tmp_path}/none")], print)
    assert "Mount it at" in str(told.value)


def test_share_that_is_not_mounted_is_not_taken_for_the_folder_below_it(tmp_path: Path) -> None:
    with pytest.raises(MissingShareError, match=f"share data: nothing is mounted at {tmp_path}"):
        require([share("nfs", str(tmp_path))], print)


def test_program_that_mounts_and_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingShareError, match="this machine has no program sshfs to mount it"):
        require([share("sshfs", f"{tmp_path}/s", "a@b:/c", mount=True)], print)
