"""Reads requirements as pip does: lines, comments, options, `-r`. Refuses what other machines can't install."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from drumbeat.jobfile.data.signed_urls import trouble_with
from drumbeat.jobfile.environments.included_files import at, beside
from drumbeat.jobfile.reading.error_messages import either, short, shown
from drumbeat.model.api.requests import EnvironmentFiles
from drumbeat.model.plan import CONSTRAINT

COMMENT = re.compile(r"(?:^|\s)#.*$")
OPTION = re.compile(r"(--?[A-Za-z][\w-]*)(?:=|\s+|$)(.*)", re.DOTALL)
OF_A_LINE = re.compile(r"\s--(?:hash|config-settings|global-option)[=\s].*", re.DOTALL)
SECRET = re.compile(r"\bhttps?://([^/@\s]+)@")
ADDRESS = re.compile(r"\bhttps?://[^\s'\"]+")
VARIABLE = re.compile(r"(?:[^:$]+:)?(?:\$\{[A-Z0-9_]+\}:?)+")
"""What may stand before the `@` of an address: a user's plain name does where the password is a variable."""
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
ARCHIVE = re.compile(r"\.(whl|tar\.gz|tgz|zip|tar\.bz2)(\[.*\])?$")

SHORT = {"-i": "--index-url", "--pypi-url": "--index-url", "-f": "--find-links"}
KEPT = (
    "--index-url", "--extra-index-url", "--find-links", "--no-index", "--pre", "--prefer-binary", "--trusted-host",
    "--no-binary", "--only-binary", "--require-hashes",
)  # fmt: skip
LONG = {"-r": "--requirement", "-c": "--constraint", "-e": "--editable", **SHORT}

MAX_INCLUDES = 1000
"""Files that may be included, counted each time: forty files that each name the next one twice would never end."""

UPLOAD = "Put the package into the job's `code` folder, or name it as an index has it."


@dataclass(frozen=True)
class RequirementLine:
    """A logical line of a requirements file."""

    text: str
    file: str
    number: int
    """In `file`, counted from 1, 0 = unknown."""
    of: int
    """The number of the line that led to it, in the file where reading began."""


def read(texts: EnvironmentFiles, name: str) -> list[RequirementLine]:
    """What a requirements file asks for, in order, with what it takes in by `-r`. Raises SpecError at a line."""
    return [*_Parser(texts).file(name, 0, (name,))]


def read_items(texts: EnvironmentFiles, name: str, items: list[tuple[str, int]]) -> list[RequirementLine]:
    """The same for the items of a conda file's pip part: (text, line)."""
    parser = _Parser(texts)
    lines = [RequirementLine(COMMENT.sub("", text).strip(), name, number, number) for text, number in items]
    return [each for line in lines if line.text for each in parser.checked(line, (name,))]


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """(number of the first line, text) of what isn't empty: continuations joined, comments gone."""
    held: list[str] = []
    first = 1
    for number, raw in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        first = first if held else number
        is_comment = raw.lstrip().startswith("#")
        held.append("" if is_comment else raw.removesuffix("\\"))
        if raw.endswith("\\") and not is_comment:
            continue
        line = COMMENT.sub("", "".join(held)).strip()
        held.clear()
        if line:
            yield first, line
    line = COMMENT.sub("", "".join(held)).strip()
    if line:
        yield first, line


def included(text: str) -> list[str]:
    """The files that a requirements file takes in by `-r` or `-c`, as they are named there."""
    return included_by(line for _, line in logical_lines(text))


def included_by(lines: Iterable[str]) -> list[str]:
    """The same for the items of a conda file's pip part."""
    options = [_parse_option(COMMENT.sub("", line).strip()) for line in lines]
    return [_file(one[1]) for one in options if one and one[0] in ("--requirement", "--constraint")]


def _parse_option(text: str) -> tuple[str, str] | None:
    """(long name, value) of a line that is an option."""
    if text[:2] in LONG and text[2:3].strip(" \t="):
        return LONG[text[:2]], text[2:].strip()  # `-rother.txt`
    option = OPTION.fullmatch(text) if text.startswith("-") else None
    return (LONG.get(option[1], option[1]), option[2].strip()) if option else None


def _file(value: str) -> str:
    """The path of a file that is taken in; conda files write it as `file:requirements.txt`, too."""
    path = value.strip("\"'")
    return path if path.startswith("file:/") else path.removeprefix("file:")


@dataclass
class _Parser:
    """Parses a requirements file and the files that it includes.

    open_ones: the files that are being read, innermost last.
    """

    texts: EnvironmentFiles
    included: int = 0

    def file(self, name: str, of: int, open_ones: tuple[str, ...]) -> Iterator[RequirementLine]:
        for number, text in logical_lines(self.texts.files[name]):
            yield from self.checked(RequirementLine(text, name, number, of or number), open_ones)

    def checked(self, line: RequirementLine, open_ones: tuple[str, ...]) -> Iterator[RequirementLine]:
        """The line, or the lines that it includes."""
        refuse_secret(line)
        option = _parse_option(line.text)
        if option is None:
            _refuse_local(line)
            normal(line)
            yield line
            return
        name, value = option
        if name == "--requirement":
            yield from self.taken_in(line, value, open_ones)
        elif name == "--constraint":
            yield from map(_constraint, self.taken_in(line, value, open_ones))
        else:
            yield _option(line, name, value)

    def taken_in(self, line: RequirementLine, value: str, open_ones: tuple[str, ...]) -> Iterator[RequirementLine]:
        """Yields the lines of the file that a line names."""
        if SCHEME.match(value):
            raise at(line.file, line.number, f"requirements at {short(value)} aren't fetched", "Keep the file beside.")
        name = beside(line.file, _file(value))
        self.included += 1
        if name in open_ones or self.included > MAX_INCLUDES:
            raise at(line.file, line.number, f"{shown(name)} includes itself, or too many files", "Take the line out.")
        if name not in self.texts.files:
            raise at(line.file, line.number, f"there is no file {shown(name)}", f"It counts from {line.file}'s folder.")
        yield from self.file(name, line.of, (*open_ones, name))


def _constraint(line: RequirementLine) -> RequirementLine:
    """A line of a constraints file. pip's options count there as they do elsewhere."""
    if is_option(line.text):
        return line
    if "[" in line.text.partition(";")[0].partition(" @ ")[0]:
        what = f"{shown(line.text)} has extras, which a constraint can't have"
        raise at(line.file, line.number, what, "Name the extras in the requirements.")
    return replace(line, text=f"{CONSTRAINT}{line.text}")


def _option(line: RequirementLine, name: str, value: str) -> RequirementLine:
    if name == "--editable":
        raise at(line.file, line.number, "an editable install can't be shared by nodes and jobs", UPLOAD)
    if name not in KEPT:
        raise at(line.file, line.number, f"the option {shown(name)} isn't supported", either(name, KEPT))
    is_relative = not SCHEME.match(value) and not value.startswith(("/", "file:"))
    if name == "--find-links" and is_relative:
        what = f"{shown(value)} is a folder beside this file, and the nodes don't have it"
        raise at(line.file, line.number, what, "Give an absolute path that every node has, or an address.")
    return RequirementLine(f"{name} {value}".strip(), line.file, line.number, line.of)


def refuse_secret(line: RequirementLine) -> None:
    """An address with a password in it would stand in plans, events and logs."""
    for user in SECRET.findall(line.text):
        if not VARIABLE.fullmatch(user):
            fix = "Name a variable of the node, as in https://${TOKEN}@host/, or set up pip on the nodes."
            raise at(line.file, line.number, "this address has credentials in it, which a plan would show", fix)
    for url in ADDRESS.findall(line.text):
        # A variable wouldn't help there: pip prints the addresses of its indexes, and masks passwords only.
        if trouble := trouble_with(SECRET.sub("https://", url)):
            fix = "Put it before the host, as in https://${TOKEN}@host/, or set up pip on the nodes."
            raise at(line.file, line.number, trouble[0], fix)


def refuse_secrets(texts: EnvironmentFiles) -> None:
    """The same for every line of an environment's files, before any of them is sent or stored. Raises SpecError."""
    for name, text in texts.files.items():
        if name != texts.dockerfile:
            for number, line in enumerate(text.splitlines(), 1):
                refuse_secret(RequirementLine(COMMENT.sub("", line), name, number, number))


def _refuse_local(line: RequirementLine) -> None:
    target = OF_A_LINE.sub("", f" {line.text}").split(" @ ")[-1].split(";")[0].strip()
    is_path = target.startswith((".", "/", "~")) or (not SCHEME.search(target) and ("/" in target or "\\" in target))
    if target.startswith("file:") or is_path or (ARCHIVE.search(target) and not SCHEME.search(target)):
        what = f"{shown(target)} is a local path, and the nodes don't have it"
        raise at(line.file, line.number, what, UPLOAD)


def normal(line: RequirementLine) -> str:
    """The form in which two spellings of one requirement are equal. Raises SpecError for what isn't one."""
    if line.text.startswith("-") or SCHEME.match(line.text):
        return line.text
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    body = OF_A_LINE.sub("", f" {line.text}").strip()
    options = " ".join(sorted(f" {line.text}"[1 + len(body) :].split()))
    try:
        made = Requirement(body)
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        raise at(
            line.file, line.number, f"{shown(line.text)} isn't a requirement: {reason}", "One is `name==1.2`."
        ) from None
    extras = f"[{','.join(sorted(canonicalize_name(one) for one in made.extras))}]" if made.extras else ""
    where = f" @ {made.url}" if made.url else ",".join(sorted(str(one) for one in made.specifier))
    marker = f"; {made.marker}" if made.marker else ""
    return f"{canonicalize_name(made.name)}{extras}{where}{marker} {options}".strip()


def is_option(text: str) -> bool:
    """Whether a line is for pip itself."""
    return text.startswith("-")
