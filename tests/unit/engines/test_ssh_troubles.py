"""What a failed login is told as, by the words of OpenSSH 9.2."""

from __future__ import annotations

import pytest

from drumbeat.engines.ssh.login import Login
from drumbeat.engines.ssh.ssh_host import SshReach

pytestmark = pytest.mark.feature("C4")

CHANGED = """\
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Host key for far has changed and you have requested strict checking.
Host key verification failed.
"""
UNKNOWN = "Host key verification failed.\n"
DENIED = "me@far: Permission denied (publickey,password,keyboard-interactive).\n"
REFUSED = "ssh: connect to host far port 22: Connection refused\n"
MISSING = "Warning: Identity file /keys/far not accessible: No such file or directory.\n"
READABLE = """\
@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @
Permissions 0644 for '/keys/far' are too open.
This private key will be ignored.
Load key "/keys/far": bad permissions
"""


@pytest.mark.parametrize(
    ("said", "what", "fix"),
    [
        (CHANGED, "its host key differs from the known one", "Find out why it changed"),
        (MISSING + CHANGED, "its host key differs from the known one", "Find out why it changed"),
        (UNKNOWN, "its host key is unknown to this machine", "compare the fingerprint"),
        (DENIED, "it refuses this user's login", "logs in without a prompt"),
        (MISSING + DENIED, "the key can't be used", "`identity_file`"),
        (READABLE + DENIED, "the key can't be used", "`identity_file`"),
        ('Load key "/keys/far": invalid format\n' + DENIED, "the key can't be used", "`identity_file`"),
        ('Load key "/keys/far": error in libcrypto\n' + DENIED, "the key can't be used", "`identity_file`"),
        ('Load key "/keys/far": Permission denied\n' + DENIED, "the key can't be used", "`identity_file`"),
        (MISSING + REFUSED, "no ssh server listens there", "Start one there"),
    ],
    ids=[
        "changed", "changed-missing", "unknown", "denied", "missing", "readable", "format", "libcrypto", "unreadable",
        "refused-missing",
    ],
)  # fmt: skip
def test_failed_login_reports_its_cause(said: str, what: str, fix: str):
    told = SshReach(Login("far"), "python3", "~/node")._trouble(said)
    assert told.what == f"far: {what}"
    assert fix in told.fix


@pytest.mark.parametrize(("port", "known"), [(None, "far"), (22, "far"), (2222, "'[far]:2222'")])
def test_a_changed_host_key_is_removed_by_its_name_among_the_known_hosts(port: int | None, known: str):
    told = SshReach(Login("far", port), "python3", "~/node")._trouble(CHANGED)
    assert told.fix.endswith(f"ssh-keygen -R {known}")


@pytest.mark.parametrize(("port", "scan"), [(None, "`ssh-keyscan far`"), (2222, "`ssh-keyscan -p 2222 far`")])
def test_unknown_host_key_has_fixes_by_keyscan_and_by_option(port: int | None, scan: str):
    told = SshReach(Login("far", port), "python3", "~/node")._trouble(UNKNOWN)
    assert scan in told.fix
    assert "options: [StrictHostKeyChecking=accept-new]" in told.fix
