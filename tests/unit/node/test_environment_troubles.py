"""What a user reads when an environment can't be made, from what the tools really print."""

import pytest

from drumbeat.model.plan import PythonEnvironment
from drumbeat.node.environments.install_errors import explain, is_transient

pytestmark = pytest.mark.feature("E4")

MISSING = """\
Looking in links: /wheels
ERROR: Could not find a version that satisfies the requirement nosuchpkg==9 (from versions: 1.0, 2.0)
ERROR: No matching distribution found for nosuchpkg==9
"""
MANY = MISSING.replace("1.0, 2.0", "0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7")
NONE = MISSING.replace("1.0, 2.0", "none")
INDIRECT = """\
INFO: pip is looking at multiple versions of wraps to determine which version is compatible with other requirements.
ERROR: Could not find a version that satisfies the requirement deep>=5 (from wraps) (from versions: none)
ERROR: No matching distribution found for deep>=5
"""
CONFLICT = """\
ERROR: Cannot install -r /c/k.requirements.txt (line 2) and tiny==2.0 because these package versions have conflicting dependencies.

The conflict is caused by:
    The user requested tiny==2.0
    old 1.0 depends on tiny<2

To fix this you could try to:
"""  # noqa: E501 (as pip prints it)
INVALID = "ERROR: Invalid requirement: 'tiny == 1 2' (from line 2 of /c/k.requirements.txt)\n"
BUILD = """\
  Building wheel for fast (pyproject.toml): finished with status 'error'
  error: subprocess-exited-with-error

  × Building wheel for fast (pyproject.toml) did not run successfully.
  │ exit code: 1
  ╰─> [4 lines of output]
      Traceback (most recent call last):
        File "backend.py", line 1, in <module>
      RuntimeError: no fast.h
      [end of output]

  note: This error originates from a subprocess, and is likely not a problem with pip.
  ERROR: Failed building wheel for fast
ERROR: Could not build wheels for fast, which is required to install pyproject.toml-based projects
"""
METADATA = """\
Processing /w/tiny-2.0-py3-none-any.whl (from -r /c/k.requirements.txt (line 1))
Processing /w/fast-0.1.zip (from -r /c/k.requirements.txt (line 2))
  Installing build dependencies: started
  Preparing metadata (pyproject.toml): finished with status 'error'
  error: subprocess-exited-with-error

  × Preparing metadata (pyproject.toml) did not run successfully.
  │ exit code: 1
  ╰─> [4 lines of output]
      RuntimeError: no fast.h
      [end of output]

error: metadata-generation-failed
"""
DEEP = "Collecting deep (from wraps->-r /c/k.requirements.txt (line 2))\nCollecting other\n"
DEEP += BUILD.replace("for fast", "for deep")
FULL = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n"
OLD = "ERROR: Package 'tiny' requires a different Python: 3.11.7 not in '<3.8'\n"
UV = """\
  × No solution found when resolving dependencies:
  ╰─▶ Because nosuchpkg was not found in the provided package locations and you require
      nosuchpkg==9, we can conclude that your requirements are unsatisfiable.
"""
NEW_UV = """\
Using Python 3.11.7 environment at: /c/k
error: No solution found when resolving dependencies
  cause: Because all versions of old depend on tiny<2 and you require tiny==2.0, that can't be.
         And because you require old, your requirements are unsatisfiable.
"""
NEW_UV_BUILD = """\
error: Failed to build `fast==0.1`
  cause: The build backend returned an error
  cause: Call to `backend.build_wheel` failed (exit status: 1)

         [stderr]
         Traceback (most recent call last):
         RuntimeError: no fast.h

hint: Build failures usually indicate a problem with the package or the build environment
"""
MAMBA = """\
error    libmamba Could not solve for environment specs
    The following package could not be found
    └─ nosuchpkg does not exist (perhaps a typo or a missing channel).
"""

CONFLICT_SAID = "The user requested tiny==2.0; old 1.0 depends on tiny<2"
UV_SAID = (
    "No solution found when resolving dependencies: Because nosuchpkg was not found in the provided package locations "
    "and you require nosuchpkg==9, we can conclude that your requirements are unsatisfiable"
)
NEW_UV_SAID = (
    "No solution found when resolving dependencies: Because all versions of old depend on tiny<2 and you require "
    "tiny==2.0, that can't be. And because you require old, your requirements are unsatisfiable"
)
MAMBA_SAID = (
    "Could not solve for environment specs The following package could not be found nosuchpkg does not exist (perhaps "
    "a typo or a missing channel)"
)


def mine(*wanted: str, source: str = "env.yml") -> PythonEnvironment:
    return PythonEnvironment("k", "mine", "", wanted, source=source, lines=tuple(range(6, 6 + len(wanted))))


@pytest.mark.parametrize(
    ("tool", "wanted", "said", "sentence"),
    [
        (
            "pip", ("tiny", "nosuchpkg==9"), MISSING,
            "pip found no version of nosuchpkg==9; available: 1.0, 2.0 (env.yml, line 7)",
        ),
        ("pip", ("tiny", "NoSuchPkg == 9"), NONE, "pip found no version of nosuchpkg==9 (env.yml, line 7)"),
        (
            "pip", ("nosuchpkg-more", "nosuchpkg==9"), MANY,
            "pip found no version of nosuchpkg==9; available: … 0.3, 0.4, 0.5, 0.6, 0.7 (env.yml, line 7)",
        ),
        ("pip", ("a", "wraps"), INDIRECT, "pip found no version of deep>=5 (which wraps requires) (env.yml, line 7)"),
        (
            "pip", ("old", "tiny==2.0"), CONFLICT,
            f"pip can't fulfil all requirements at once: {CONFLICT_SAID} (env.yml, line 7)",
        ),
        (
            "pip", ("a", "tiny == 1 2"), INVALID,
            "pip says: Invalid requirement: 'tiny == 1 2' (from line 2 of /c/k.requirements.txt) (env.yml, line 7)",
        ),
        ("pip", ("a", "fast"), BUILD, "pip could not build fast: RuntimeError: no fast.h (env.yml, line 7)"),
        ("pip", ("tiny", "fast"), METADATA, "pip could not build fast: RuntimeError: no fast.h (env.yml, line 7)"),
        ("pip", ("tiny", "wraps"), DEEP, "pip could not build deep: RuntimeError: no fast.h (env.yml, line 7)"),
        ("pip", ("a", "b"), FULL, "pip: No space left on device"),
        (
            "pip", ("a", "tiny"), OLD,
            "pip says: Package 'tiny' requires a different Python: 3.11.7 not in '<3.8' (env.yml, line 7)",
        ),
        ("pip", ("a",), "Killed\n", "pip ended with exit code 1: Killed"),
        ("pip", ("a",), "", "pip ended with exit code 1"),
        ("uv", ("tiny", "nosuchpkg==9"), UV, f"uv says: {UV_SAID} (env.yml, line 7)"),
        (
            "uv", ("a", "fast"), NEW_UV_BUILD,
            "uv says: Failed to build `fast==0.1`: RuntimeError: no fast.h (env.yml, line 7)",
        ),
        ("uv", ("old", "tiny==2.0"), NEW_UV, f"uv says: {NEW_UV_SAID} (env.yml, line 7)"),
        ("micromamba", ("tiny",), MAMBA, f"micromamba says: {MAMBA_SAID}"),
    ],
)  # fmt: skip
def test_error_of_the_tool_names_the_requesting_line(tool: str, wanted: tuple[str, ...], said: str, sentence: str):
    assert explain(mine(*wanted), tool, said, 1) == f"environment mine: {sentence}"


BROKEN = "WARNING: Retrying (Retry(total=4, connect=None)) after connection broken by '{}': /simple/tiny/\n"
REFUSED = BROKEN.format(
    "NewConnectionError('<pip._vendor.urllib3.connection.HTTPConnection object at 0x7f>: Failed to establish a new "
    "connection: [Errno 111] Connection refused')"
)
UNKNOWN = BROKEN.format(
    """NameResolutionError("HTTPSConnection(host='packages.acme.com', port=443): Failed to resolve """
    """'packages.acme.com' ([Errno -3] Temporary failure in name resolution)")"""
)
LATE = BROKEN.format(
    """ReadTimeoutError("HTTPSConnectionPool(host='pypi.org', port=443): Read timed out. (read timeout=15)")"""
)
PROXY = BROKEN.format("""ProxyError('Cannot connect to proxy.', OSError('Tunnel connection failed: 403 Forbidden'))""")
UNTRUSTED = (
    "Could not fetch URL https://pypi.org/simple/tiny/: There was a problem confirming the ssl certificate: "
    "HTTPSConnectionPool(host='pypi.org', port=443): Max retries exceeded with url: /simple/tiny/ (Caused by SSLError("
    "SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed'))) - skipping\n"
)
FILE = (
    "ERROR: Could not install packages due to an OSError: HTTPSConnectionPool(host='files.pythonhosted.org', port=443):"
    " Max retries exceeded with url: /tiny.whl (Caused by NewConnectionError('[Errno 101] Network is unreachable'))\n"
)
INDEXES = "Looking in indexes: https://me:****@packages.acme.com:8443/simple, https://pypi.org/simple\n"
NOTHING = NONE.replace("nosuchpkg==9", "tiny").replace("Looking in links: /wheels\n", "")


@pytest.mark.feature("F10")
@pytest.mark.parametrize(
    ("said", "told", "may_pass"),
    [
        (REFUSED + NOTHING, "pypi.org (Connection refused), and so found no version of tiny", True),
        (
            INDEXES + REFUSED + NOTHING,
            "packages.acme.com:8443 or pypi.org (Connection refused), and so found no version of tiny",
            True,
        ),
        (
            UNKNOWN + NOTHING,
            "packages.acme.com (Temporary failure in name resolution), and so found no version of tiny",
            True,
        ),
        (LATE + NOTHING, "pypi.org (Read timed out), and so found no version of tiny", True),
        (PROXY + NOTHING, "pypi.org (Cannot connect to proxy), and so found no version of tiny", True),
        (
            UNTRUSTED + NOTHING,
            "pypi.org (its certificate isn't trusted on this node), and so found no version of tiny",
            False,
        ),
        (FILE, "files.pythonhosted.org (Network is unreachable)", True),
    ],
)
def test_unreachable_index_is_the_cause_of_a_missing_version(said: str, told: str, may_pass: bool):
    asked = "" if said == FILE else " (env.yml, line 7)"
    assert (
        explain(mine("a", "tiny"), "pip", said, 1) == f"environment mine: pip could not reach the index {told}{asked}"
    )
    assert is_transient("pip", said) is may_pass


OF_OLD_UV = """\
error: Failed to fetch: `https://{0}/simple/tiny/`
  Caused by: Request failed after 3 retries
  Caused by: error sending request for url (https://{0}/simple/tiny/)
  Caused by: client error (Connect)
  Caused by: dns error
  Caused by: failed to lookup address information: Name or service not known
"""
OF_NEW_UV = """\
Using Python 3.11.7 environment at: /c/k
error: Request failed after 3 retries in 10.5s
  cause: Failed to fetch: http://127.0.0.1:9/simple/tiny/
  cause: error sending request for url (http://127.0.0.1:9/simple/tiny/)
  cause: client error (Connect)
  cause: tcp connect error
  cause: Connection refused (os error 111)
"""
OUT_OF_SERVICE = """\
error: Request failed after 3 retries in 10.4s
  cause: Failed to fetch: http://127.0.0.1:9/w/tiny-2.0.whl
  cause: HTTP status server error (503 Service Unavailable) for url (http://127.0.0.1:9/w/tiny-2.0.whl)
"""
UNTRUSTED_UV = """\
  × Failed to fetch: `https://127.0.0.1:9/simple/tiny/`
  ├─▶ Request failed after 1 retries
  ├─▶ error sending request for url (https://127.0.0.1:9/simple/tiny/)
  ├─▶ client error (Connect)
  ╰─▶ invalid peer certificate: UnknownIssuer
  help: Consider enabling use of system TLS certificates with the
        `--native-tls` command-line flag
"""
FORBIDDEN = """\
  × No solution found when resolving dependencies:
  ╰─▶ Because tiny was not found in the package registry and you require
      tiny==7, we can conclude that your requirements are unsatisfiable.

      hint: An index URL (http://127.0.0.1:9/simple) returned a 403
      Forbidden error. This could indicate lack of valid authentication
      credentials, or the package may not exist on this index.
"""
UNAUTHORIZED = """\
error: No solution found when resolving dependencies
  cause: Because tiny was not found in the package registry and you require tiny==7, your requirements can't be.

hint: An index URL (http://u:****@127.0.0.1:9/simple) could not be queried due to a lack of valid authentication \
credentials (401 Unauthorized)
"""


@pytest.mark.parametrize(
    ("said", "told", "may_pass"),
    [
        (OF_OLD_UV.format("u:****@pypi.org"), "could not reach the index pypi.org (Name or service not known)", True),
        (OF_NEW_UV, "could not reach the index 127.0.0.1:9 (Connection refused)", True),
        (OUT_OF_SERVICE, "could not reach the index 127.0.0.1:9 (503 Service Unavailable)", True),
        (UNTRUSTED_UV, "could not reach the index 127.0.0.1:9 (invalid peer certificate: UnknownIssuer)", False),
        (FORBIDDEN, "was refused by the index 127.0.0.1:9 (403 Forbidden)", False),
        (UNAUTHORIZED, "was refused by the index 127.0.0.1:9 (401 Unauthorized)", False),
    ],
)
def test_uv_too_names_the_index_that_it_could_not_have(said: str, told: str, may_pass: bool):
    asked = "" if said == OUT_OF_SERVICE else ", and so found no version of tiny (env.yml, line 7)"
    assert explain(mine("a", "tiny==7"), "uv", said, 2) == f"environment mine: uv {told}{asked}"
    assert is_transient("uv", said) is may_pass


def test_errors_beyond_the_network_are_final():
    for said in (MISSING, NONE, CONFLICT, BUILD, "", REFUSED + BUILD):
        assert not is_transient("pip", said)
        assert "could not reach" not in explain(mine("a"), "pip", said, 1)
    for said in (UV, NEW_UV, MAMBA):
        assert not is_transient("uv", said)


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("uv", "error: Failed to fetch: `https://pypi.org/simple/tiny/`\n  Caused by: error sending request for url\n"),
        ("conda", "CondaHTTPError: HTTP 000 CONNECTION FAILED for url <https://conda.anaconda.org/x>\n"),
        ("micromamba", "error    libmamba Could not resolve host: conda.anaconda.org\n"),
    ],
)
def test_other_tools_report_unreachable_indexes_themselves(tool: str, said: str):
    assert is_transient(tool, said)


def test_requirement_without_a_line_is_quoted():
    unknown = PythonEnvironment("k", "mine", "", ("nosuchpkg==9",))
    assert explain(unknown, "pip", NONE, 1).endswith("(required by nosuchpkg==9)")
    without_line = PythonEnvironment("k", "mine", "", ("nosuchpkg==9",), source="env.yml", lines=(0,))
    assert explain(without_line, "pip", NONE, 1).endswith("(env.yml)")


def test_a_tool_that_was_killed_and_one_that_says_much():
    assert explain(mine("a"), "pip", "", -9) == "environment mine: pip was ended by signal 9"
    assert len(explain(mine("a"), "pip", "ERROR: " + "x" * 10_000, 1)) < 500


HEAD = "  Building wheel for fast (setup.py): started\n"
TAIL = """\
  subprocess.CalledProcessError: Command '['cmake', '--build', '.']' returned non-zero exit status 2.
  error: subprocess-exited-with-error
  × Building wheel for fast (setup.py) did not run successfully.
  ERROR: Failed building wheel for fast
ERROR: Failed to build one or more wheels
"""
CMAKE = """\
  CMake Error at /usr/share/cmake-3.25/Modules/FindPackageHandleStandardArgs.cmake:230 (message):
    Could NOT find MPI (missing: MPI_CXX_FOUND CXX)
  Call Stack (most recent call first):
"""


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            "  /s/a.cc:3:10: error: no type named 'T'\n  /s/b.cc:1:1: error: after it\n",
            "/s/a.cc:3:10: error: no type named 'T'",
        ),
        (
            "  /s/a.cc:3:10: fatal error: Python.h: No such file or directory\n",
            "/s/a.cc:3:10: fatal error: Python.h: No such file or directory (apt-get install python3-dev)",
        ),
        (
            "  c++: fatal error: Killed signal terminated program cc1plus\n",
            (
                "c++: fatal error: Killed signal terminated program cc1plus (too little memory: set MAKEFLAGS: -j1 "
                "in the build's variables)"
            ),
        ),
        (
            CMAKE,
            (
                "/usr/share/cmake-3.25/Modules/FindPackageHandleStandardArgs.cmake:230: Could NOT find MPI (missing: "
                "MPI_CXX_FOUND CXX)"
            ),
        ),
    ],
    ids=["compiler", "header", "memory", "cmake"],
)
def test_first_error_of_a_compiler_is_reported(said: str, sentence: str):
    assert explain(mine("fast==1"), "pip", HEAD + said + TAIL, 1) == (
        f"environment mine: pip could not build fast: {sentence} (env.yml, line 6)"
    )
