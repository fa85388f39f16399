"""Which file system a path lies on, read from Linux's mount table."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

# Locks and memory maps that a database needs don't hold, or don't hold between machines, on these.
_NETWORK = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "coda", "9p", "ceph", "lustre", "gpfs", "beegfs"),
        *("glusterfs", "pvfs2", "orangefs", "ocfs2", "gfs2", "wekafs", "panfs", "davfs", "davfs2"),
    }
)
_NETWORK_FUSE = frozenset(
    {
        *("sshfs", "glusterfs", "ceph", "ceph-fuse", "s3fs", "goofys", "rclone", "gcsfuse", "blobfuse", "blobfuse2"),
        *("cifs", "smbnetfs", "juicefs", "moosefs", "mfs", "davfs", "beegfs", "curlftpfs", "mount-s3", "mountpoint-s3"),
    }
)


def file_system(path: PurePosixPath, mountinfo: str) -> str:
    """The type of the file system that an absolute path without links lies on; "" when the table doesn't say.

    mountinfo: the text of /proc/self/mountinfo, as proc_pid_mountinfo(5) describes it.
    """
    best, found = -1, ""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = PurePosixPath(_unescaped(fields[4]))
        # Of two mounts on one point the later one hides the earlier.
        if len(point.parts) >= best and path.is_relative_to(point):
            best, found = len(point.parts), after.split(" ")[0]
    return found


def is_network(kind: str) -> bool:
    """Whether a file system of this type is shared over a network."""
    name = kind.removeprefix("fuse.")
    return kind in _NETWORK or (name != kind and name in _NETWORK_FUSE)


def file_system_here(path: Path) -> str:
    """The type of the file system of a path on this machine; "" where that can't be known."""
    try:
        mountinfo = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    return file_system(PurePosixPath(path.resolve()), mountinfo)


def _unescaped(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)
