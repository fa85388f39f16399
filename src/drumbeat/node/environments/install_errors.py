"""What was wrong with an environment that couldn't be made: the tool's own error, and the line that asked for it."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from drumbeat.model.plan import PythonEnvironment

LONGEST = 400
_PIP = re.compile(r"^\s*(?:ERROR|error): (?!subprocess-exited|metadata-generation|Exception:)(.+)$", re.MULTILINE)
_NO_VERSION = re.compile(r"Could not find a version that satisfies the requirement (.+?) \(from versions: (.*)\)$")
_OF_OURS = re.compile(r"\(from (?:line (\d+) of .+|(?:.*->)?-r .+ \(line (\d+)\))\)")
_BEGUN = re.compile(r"^ *(?:Collecting|Processing) (\S+).*$", re.MULTILINE)
_FAILED_TO_BUILD = re.compile(r"Failed (?:building wheel for|to build) '?([\w.-]+)")
_CONFLICT = re.compile(r"^The conflict is caused by:\n((?: {4}.+\n)+)", re.MULTILINE)
_BUILD = re.compile(
    r"^ *(\w*(?:Error|Exception|Exit)\b.*|error: .+|fatal error: .+|.*: fatal error: .+)$", re.MULTILINE
)
_COMPILER = re.compile(r"^ *(\S+:\d+(?::\d+)?: (?:fatal )?error: .+|\S+: fatal error: .+)$", re.MULTILINE)
_CMAKE = re.compile(r"^( *)CMake Error at (\S+:\d+).*:\n(?: *\n)*((?:\1 +\S.*\n)+)", re.MULTILINE)
_HINTS = {
    "Python.h": "apt-get install python3-dev",
    "mpi.h": "apt-get install libopenmpi-dev",
    "Killed signal": "too little memory: say MAKEFLAGS: -j1 among the build's variables",
}
"""What is behind a compiler's words, for those that many meet."""
_BUILDS = re.compile(r"^ +error: subprocess-exited|^ *× |Failed building wheel for|Failed to build", re.MULTILINE)
_UV = re.compile(r"^\s*(?:error: |× )(.+(?:\n\s+(?:╰─▶|├─▶|│|  ).+)*)", re.MULTILINE)
_UV_CAUSE = re.compile(r"^  (?:cause: |Caused by: |[├╰]─▶ )(.+(?:\n {9}.+)*)", re.MULTILINE)
_UV_NO_LINE = re.compile(
    r"(?:error sending request|HTTP status server error \((?P<status>.+?)\)) for url \((?P<url>\S+)\)"
)
_UV_REFUSED = re.compile(r"An\s+index(?:\s+URL)?\s+\((?P<url>\S+)\)[^()]*?\(?(?P<status>40[13]\s+\w+)")
_UV_NOT_THERE = re.compile(r"Because\s+(\S+)\s+was\s+not\s+found\s+in\s+the\s+package\s+registry")
_CONDA = re.compile(
    r"^(?:error\s+libmamba|critical libmamba|\w+Error:|\S+NotFoundError:)\s*(.+(?:\n\s+.+)*)", re.MULTILINE
)
_NO_LINE = re.compile(
    r"after connection broken by|Could not fetch URL|Max retries exceeded with url|Read timed out|ReadTimeoutError"
    r"|NewConnectionError|NameResolutionError|ConnectTimeoutError|ProxyError|SSLError"
)
"""pip's and urllib3's words for an index that it couldn't reach; pip goes on as if there were nothing in it."""
_WHY_NO_LINE = re.compile(
    r"CERTIFICATE_VERIFY_FAILED|\[Errno -?\d+\] (?P<errno>[^'\"()\[\]]+)|(?P<proxy>Cannot connect to proxy)"
    r"|(?P<said>Read timed out|[Cc]onnect timeout|timed out|Connection reset by peer|Remote end closed connection"
    r"|Tunnel connection failed: [^'\"()]+)"
)
_INDEXES = re.compile(r"^Looking in indexes: (.+)$", re.MULTILINE)
_NAMED_HOST = re.compile(r"\bhost='([^'@]+)'")
_UNTRUSTED = re.compile(
    r"CERTIFICATE_VERIFY_FAILED|certificate verify failed|invalid peer certificate|SSL certificate problem"
    r"|SSL peer certificate"
)
_OTHERS_NO_LINE = re.compile(
    r"error sending request for url|HTTP status server error|tcp connect error|dns error"
    r"|CondaHTTPError|HTTP 000 CONNECTION FAILED"
    r"|Could not resolve host(?:name)?|Couldn't resolve host|Timeout was reached|Failed to connect to"
    r"|Temporary failure in name resolution"
)
"""Those of uv, conda and micromamba, whose errors say it themselves."""
_DISK = re.compile(r"No space left on device|Disk quota exceeded")
_NAME = re.compile(r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?")


def explain(wanted: PythonEnvironment, tool: str, said: str, code: int) -> str:
    """One sentence: `environment mine: pip found no version of nosuchpkg==9 (environment.yml, line 7)`.

    said: what the tool has printed. code: its exit code, the negative of a signal's number.
    """
    if full := _DISK.search(said):
        return f"environment {wanted.name}: {tool}: {full[0]}"
    what = _words(tool, said) or _end(said, code)
    sentence = f"environment {wanted.name}: {tool} {_short(what)}"
    asked = blamed(wanted, what) or blamed(wanted, _begun(said))
    return f"{sentence} ({asked})" if asked else sentence


def is_passing(tool: str, said: str) -> bool:
    """Whether the cause is a place on the network that can't be reached now."""
    if tool in ("pip", "venv"):
        return bool(why := _unreached(said)) and not _UNTRUSTED.search(why)
    return bool(_OTHERS_NO_LINE.search(said)) and not _UNTRUSTED.search(said)


def _unreached(said: str) -> str:
    """The line that tells why pip had no index, before its error; "" = it had one, or failed by something else."""
    lines = [line for line in said.splitlines() if _NO_LINE.search(line)]
    errors = _PIP.findall(said)
    is_cause = any(_NO_VERSION.search(one) or _NO_LINE.search(one) for one in errors)
    if not lines or not is_cause:
        return ""
    return next((line for line in lines if _WHY_NO_LINE.search(line)), lines[0])


def _of_no_index(said: str) -> str:
    """`could not reach the index pypi.org (Connection refused), so it found no version of tiny`; "" = it could."""
    line = _unreached(said)
    if not line:
        return ""
    match = _WHY_NO_LINE.search(line)
    why = next((one for one in match.groups() if one), "its certificate isn't trusted here") if match else ""
    asked = next((found[1] for one in _PIP.findall(said) if (found := _NO_VERSION.search(one))), "")
    return _without_index("could not reach", _host(line) or _hosts(said), why, asked.partition(" (from ")[0])


def _host(line: str) -> str:
    """The one that a warning names; older pips tell only the path there."""
    found = _NAMED_HOST.search(line)
    return found[1] if found else ""


def _hosts(said: str) -> str:
    """Where pip looks, without users and passwords."""
    found = _INDEXES.search(said)
    urls = found[1].split(", ") if found else ["https://pypi.org/simple"]
    return " or ".join(dict.fromkeys(host for url in urls if (host := _host_of(url)))) or "pypi.org"


def _host_of(url: str) -> str:
    """Without a user and a password."""
    return urlsplit(url).netloc.rpartition("@")[2]


def blamed(wanted: PythonEnvironment, what: str) -> str:
    """The requirement that these words name: `environment.yml, line 7`; "" where it can't be told."""
    index = _index(wanted.requirements, what)
    if index is None or not wanted.source:
        return "" if index is None else f"required by {wanted.requirements[index]}"
    number = wanted.lines[index] if index < len(wanted.lines) else 0
    return f"{wanted.source}, line {number}" if number > 0 else wanted.source


def _index(requirements: tuple[str, ...], what: str) -> int | None:
    """That whose line pip tells, else the one that is quoted, else the one that is named first."""
    if match := _OF_OURS.search(what):
        number = int(match[1] or match[2])
        if number <= len(requirements):
            return number - 1
    places: list[tuple[int, int, int]] = []
    for index, text in enumerate(requirements):
        name = name_of(text)
        if name and (at := _find(name, what)) is not None:
            is_quoted = text != name and _squeezed(text) in _squeezed(what)
            places.append((0 if is_quoted else 1, at, index))
    return min(places)[2] if places else None


def name_of(requirement: str) -> str:
    """The project that a line asks for; "" for an option."""
    found = _NAME.match(requirement)
    return found[0] if found else ""


def _find(name: str, what: str) -> int | None:
    spelt = re.sub(r"[-_.]+", "[-_.]+", re.escape(name).replace(r"\-", "-").replace(r"\.", "."))
    found = re.search(rf"(?<![\w.-]){spelt}(?![\w-]|\.\w)", what, re.IGNORECASE)
    return found.start() if found else None


def _words(tool: str, said: str) -> str:
    """What the tool calls its error; "" where it can't be made out."""
    if tool in ("pip", "venv"):
        return _of_pip(said)
    if tool == "uv":
        return _of_uv(said)
    found = _CONDA.search(said)
    return f"says: {_joined(found[1])}" if found else ""


def _of_uv(said: str) -> str:
    """Its first versions draw a tree of causes, later ones a list."""
    if at := _UV_NO_LINE.search(said):
        last = (_UV_CAUSE.findall(said, at.end()) or [""])[-1]
        why = at["status"] or re.sub(r"^.*information: | \(os error \d+\)$", "", last)
        project = at["url"].rstrip("/").rpartition("/")[2] if at["url"].endswith("/") else ""
        return _without_index("could not reach", _host_of(at["url"]), why, project)
    if refused := _UV_REFUSED.search(said):
        project = next(iter(_UV_NOT_THERE.findall(said)), "")
        return _without_index("was refused by", _host_of(refused["url"]), refused["status"], project)
    found = _UV.search(said)
    if not found:
        return ""
    joined = _joined(found[1])
    inner = _BUILD.findall(said, found.end())[-1:] if "build" in joined else []
    return f"says: {': '.join([joined, *(inner or map(_joined, _UV_CAUSE.findall(said, found.end())))])}"


def _without_index(how: str, host: str, why: str, asked: str) -> str:
    told = f"{how} the index {host}" + (f" ({' '.join(why.split())})" if why else "")
    return f"{told}, and so found no version of {asked}" if asked else told


def _joined(lines: str) -> str:
    """In one line, without what a tree is drawn with."""
    return " ".join(re.sub(r"[\u2500-\u257f▶×]+", " ", lines).split())


def _of_pip(said: str) -> str:
    if unreached := _of_no_index(said):
        return unreached
    errors = _PIP.findall(said)
    for line in errors:
        if match := _NO_VERSION.search(line):
            asked, there = match[1], match[2]
            of = asked.partition(" (from ")
            through = f" (which {of[2].rstrip(')')} requires)" if of[1] and not of[2].startswith("-r") else ""
            has = f"; there is {_last(there)}" if there not in ("", "none") else ""
            return f"found no version of {of[0]}{through}{has}"
    if conflict := _CONFLICT.search(said):
        parts = "; ".join(line.strip() for line in conflict[1].splitlines())
        return f"can't fulfil all requirements at once: {parts}"
    if _BUILDS.search(said) and (compiler := _of_compiler(said)):
        return f"could not build {_package(said)}: {compiler}"
    if _BUILDS.search(said) and (builds := _BUILD.findall(said)):
        inner = [line for line in builds if not line.startswith(("ERROR", "error: subprocess", "error: metadata"))]
        return f"could not build {_package(said)}: {(inner or builds)[-1]}"
    return f"says: {errors[0]}" if errors else ""


def _of_compiler(said: str) -> str:
    """The first thing that a compiler, or CMake before it, calls an error: what follows follows from it."""
    if compiler := _COMPILER.search(said):
        hint = next((hint for words, hint in _HINTS.items() if words in compiler[1]), "")
        return f"{compiler[1]} ({hint})" if hint else compiler[1]
    cmake = _CMAKE.search(said)
    return f"{cmake[2]}: {' '.join(cmake[3].split())}" if cmake else ""


def _package(said: str) -> str:
    """What pip was building: it names a package only once it has got to its wheel."""
    if match := _FAILED_TO_BUILD.search(said):
        return match[1]
    begun = _BEGUN.match(_begun(said))
    return re.sub(r"-\d.*", "", begun[1].rpartition("/")[2]) if begun else "a package"


def _begun(said: str) -> str:
    """The line with which pip began what failed to build; "" = nothing did."""
    failed = _BUILDS.search(said)
    if failed is None:
        return ""
    named = _FAILED_TO_BUILD.search(said)
    begun = [match[0] for match in _BEGUN.finditer(said, 0, failed.start())]
    return next((one for one in reversed(begun) if named is None or _find(named[1], one) is not None), "")


def _last(versions: str) -> str:
    """The newest few of a list."""
    parts = versions.split(", ")
    return ", ".join(parts) if len(parts) <= 5 else f"… {', '.join(parts[-5:])}"


def _end(said: str, code: int) -> str:
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "")
    return f"{how}: {last}" if last else how


def _short(text: str) -> str:
    joined = " ".join(text.split()).rstrip(".")
    return joined if len(joined) <= LONGEST else f"{joined[: LONGEST - 1]}…"


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text).lower()
