"""`shares:` of a compute file."""

from typing import Any

import pytest

from drumbeat.jobfile.compute.computes import compute_from
from drumbeat.model.errors import SpecError
from drumbeat.model.shares import SharePlan

pytestmark = pytest.mark.feature("D9")


def lab(*shares: dict[str, Any]) -> dict[str, Any]:
    return {"name": "lab", "type": "netlab", "shares": list(shares)}


def test_shares_are_read_as_nodes_check_them() -> None:
    nfs = {"name": "data", "type": "NFS", "source": "filer:/export", "path": "/data/"}
    ssh = {
        "name": "home",
        "type": "sshfs",
        "source": "a@b:/c",
        "path": "/home/c",
        "mount": True,
        "options": ["port=22"],
    }
    compute = compute_from(lab(nfs, ssh))
    assert compute.share_plans == (
        SharePlan("data", "nfs", "/data/", "filer:/export"),
        SharePlan("home", "sshfs", "/home/c", "a@b:/c", mount=True, options=("port=22",)),
    )
    assert compute.share_at("/data/cats/1.jpg") == compute.share_plans[0]
    assert compute.share_at("/data2") is None


@pytest.mark.parametrize(
    ("share", "said"),
    [
        ({"type": "path", "path": "/"}, "/ can't be the path of a share"),
        ({"type": "path", "path": "/data/../etc"}, "can't be the path of a share"),
        ({"type": "path", "path": "data"}, "a path that begins with `/`"),
        ({"type": "path", "path": "/data", "source": "x"}, "has no source"),
        ({"type": "nfs", "path": "/data", "source": "f:/e", "mount": True}, "nodes don't mount shares of type `nfs`"),
        ({"type": "sshfs", "path": "/data", "mount": True}, "needs its source"),
        ({"type": "sshfs", "path": "/data", "options": ["port=22"]}, "options are for a share that nodes mount"),
        ({"type": "gluster", "path": "/data"}, "gluster"),
        ({"type": "path", "path": "/data", "name": "-x"}, "letters, digits"),
    ],
)
def test_share_that_cannot_be_is_refused_with_the_reason(share: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as told:
        compute_from(lab({"name": "data", **share}))
    assert said in str(told.value)


def test_two_shares_at_one_path_are_refused() -> None:
    with pytest.raises(SpecError, match="two shares have the path /data"):
        compute_from(
            lab({"name": "a", "type": "path", "path": "/data"}, {"name": "b", "type": "path", "path": "/data/"})
        )
