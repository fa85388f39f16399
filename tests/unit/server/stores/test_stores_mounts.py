from pathlib import Path, PurePosixPath

import pytest

from drumbeat.model.errors import RefusedError
from drumbeat.server.database.database import file_system, is_network, refuse_network

# Real lines: a laptop with two network homes, a bind mount, a point with a space, one mount over another.
TABLE = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
31 27 0:42 / /home rw,relatime shared:2 - nfs4 nas:/home rw,vers=4.2,addr=10.0.0.2
32 31 254:0 /var/local/ada /home/ada/local rw,relatime - ext4 /dev/vda rw
33 27 0:50 / /mnt/my\040share rw,nosuid,nodev master:3 - cifs //nas/share rw
34 27 0:51 / /mnt/remote rw,nosuid - fuse.sshfs me@host:/ rw
35 27 0:52 / /scratch rw - tmpfs tmpfs rw
36 35 0:53 / /scratch rw - lustre 10.0.0.3@tcp:/fs rw
torn line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/var/lib/drumbeat.db", "ext4"),
        ("/home", "nfs4"),
        ("/home/ada/drumbeat.db", "nfs4"),
        ("/home/ada/local/drumbeat.db", "ext4"),
        ("/homestead/drumbeat.db", "ext4"),
        ("/mnt/my share/x", "cifs"),
        ("/mnt/remote/x", "fuse.sshfs"),
        ("/scratch/x", "lustre"),
        ("/proc/self", "proc"),
    ],
)
def test_path_lies_on_the_innermost_and_last_mount(path, kind):
    assert file_system(PurePosixPath(path), TABLE) == kind


def test_file_system_is_empty_for_an_empty_mount_table():
    assert file_system(PurePosixPath("/x"), "") == ""


@pytest.mark.feature("F10")
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("nfs", True),
        ("nfs4", True),
        ("cifs", True),
        ("fuse.sshfs", True),
        ("fuse.s3fs", True),
        ("lustre", True),
        ("9p", True),
        ("ext4", False),
        ("xfs", False),
        ("btrfs", False),
        ("zfs", False),
        ("tmpfs", False),
        ("overlay", False),
        ("fuse.fuse-overlayfs", False),
        ("fuseblk", False),
        ("", False),
    ],
)
def test_network_file_systems_are_known(kind, expected):
    assert is_network(kind) is expected


@pytest.mark.feature("F10")
def test_a_database_on_a_network_file_system_is_refused_with_a_sentence():
    refuse_network(Path("/home/ada/drumbeat.db"), "ext4")
    with pytest.raises(RefusedError) as refused:
        refuse_network(Path("/home/ada/drumbeat.db"), "nfs4")
    assert str(refused.value) == (
        "/home/ada/drumbeat.db: /home/ada/drumbeat.db is on a network file system (nfs4). "
        "Name a folder on a local disk; a database on a network file system is lost sooner or later."
    )
