"""Decides whether the ranks of a plan can start in warm workers, by the plan and the text of its command. Pure.

A warm worker runs the job's own command, shell included, until Python has started: before that, the command must do
nothing that another round could notice. The modules that it imports in advance are `MODULES` in
`node/supervisor/warm_worker_hook.py`. The job's key `warm_start`, with a default in `jobfile/job/extensions.py`, turns
it off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from drumbeat.model.plan import Plan
from drumbeat.model.supervisor import ProcessStart, WarmPoolOrder

PER_ROUND = (
    "DRUMBEAT_*", "AZ_BATCH*", "AZUREML_*", "AZURE_ML_*", "MLFLOW_*", "MASTER_ADDR", "MASTER_PORT", "DLTS_HOSTFILE",
    "HOROVOD_GLOO_RENDEZVOUS_*",
)  # fmt: skip
"""Variables whose values may differ between rounds, as no import reads them. `*` = any ending."""

_LAUNCHERS = ("torch.distributed.", "accelerate", "deepspeed", "horovod", "ray.", "composer", "colossalai")
"""Modules that start their own ranks, which would start cold anyway."""
_PYTHON = re.compile(r"(.*/)?python(\d+(\.\d+)?)?")
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_VARIABLE = re.compile(rf"\$({_NAME})|\$\{{({_NAME})\}}")
_TOKEN = re.compile(
    rf"""
      (?P<space> (?: [ \t] | \\\n )+ )
    | (?P<single> '[^']*' )
    | (?P<double> "(?: [^"\\`$] | \\. | {_VARIABLE.pattern} )*" )
    | (?P<variable> {_VARIABLE.pattern} )
    | (?P<escaped> \\. )
    | (?P<both> && )
    | (?P<programs> [|&;()\n] )
    | (?P<files> [<>] )
    | (?P<plain> [^\s'"\\`$|&;()<>*?\[{{#]+ | (?<=\S)\# )
    | (?P<worked> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_REFUSED = {
    "programs": "the command is more than one program",
    "files": "the shell opens files before the program begins",
    "worked": "the shell evaluates something before the program begins",
}
_ASSIGNMENT = re.compile(rf"({_NAME})=")
_WITHOUT_HOOK = {"I": "-I", "E": "-E", "S": "-S"}
"""Flags with which Python doesn't read PYTHONPATH or doesn't import `site`."""


class _ColdError(Exception):
    """The reason why a command can't start warm."""


@dataclass(frozen=True)
class _Word:
    text: str
    names: tuple[str, ...] = ()
    """Variables that the shell expands in it."""


def why_cold(plan: Plan) -> str:
    """Returns why the ranks of a plan get no warm workers; "" = they do."""
    if not plan.warm_start:
        return "drumbeat: {warm_start: false}"
    if plan.clean_rounds:  # A warm worker of an earlier round would run in that round's folder.
        return "drumbeat: {clean_rounds: true}"
    if plan.launcher != "pytorch":
        return f"ranks of launcher {plan.launcher} start cold"
    if plan.container is not None:
        return "ranks in containers start cold"
    return ""


def order(plan: Plan, ranks: Sequence[ProcessStart]) -> WarmPoolOrder:
    """Returns the warm workers that a supervisor prepares for the round after that of these ranks."""
    if cold := why_cold(plan):
        return WarmPoolOrder(cold=cold)
    fixed = dict[str, None]()
    try:
        for rank in ranks:
            shell, option, command = rank.argv if len(rank.argv) == 3 else ("", "", "")
            if not shell.endswith("/bash") or option != "-c":
                return WarmPoolOrder(cold="the ranks are children of a program of drumbeat")
            fixed |= dict.fromkeys(shell_variables(command))
    except ValueError as error:
        return WarmPoolOrder(cold=str(error))
    return WarmPoolOrder(per_round=PER_ROUND, fixed=tuple(fixed))


def describe_start(number: int, ranks: int, warm: int, cold: str) -> str:
    """Returns the message on how the ranks of a node started. cold: why some ranks started cold."""
    if warm == ranks:
        return f"round {number} started warm"
    if not warm:
        return f"round {number} started cold: {cold}"
    return f"round {number} started warm with {warm} of {ranks} ranks; the others cold: {cold}"


def shell_variables(command: str) -> tuple[str, ...]:
    """Returns the variables that the shell reads or sets before the Python program of a command begins.

    Raises ValueError with the reason if the command isn't one Python program, or can't start warm.
    """
    try:
        words = _without_folders(list(_words(command.strip())))
        names = [name for word in words for name in word.names]
        while words and (assignment := _ASSIGNMENT.match(words[0].text)):
            if assignment.group(1).startswith("PYTHON"):
                raise _ColdError(f"the command sets {assignment.group(1)}")
            names.append(assignment.group(1))
            words.pop(0)
        _check_program(words)
    except _ColdError as error:
        raise ValueError(str(error)) from None
    return tuple(dict.fromkeys(names))


def check_interpreter(words: Sequence[str]) -> None:
    """Raises ValueError with the reason if an interpreter with this command line can't start warm."""
    try:
        _check_program([_Word(word) for word in words])
    except _ColdError as error:
        raise ValueError(str(error)) from None


def _without_folders(words: list[_Word]) -> list[_Word]:
    """Drops `cd FOLDER &&` and `exec` at the beginning."""
    while len(words) > 2 and words[0].text == "cd" and words[2].text == "&&":
        words = words[3:]
    if any(word.text == "&&" for word in words):
        raise _ColdError("the command is more than one program")
    return words[1:] if words and words[0].text == "exec" else words


def _check_program(words: list[_Word]) -> None:
    if not words or words[0].names or not _PYTHON.fullmatch(words[0].text):
        raise _ColdError("the command isn't a Python program")
    rest = words[1:]
    while rest and rest[0].text.startswith("-"):
        option = rest.pop(0)
        if option.names or option.text in ("-", "--"):
            raise _ColdError("Python's options can't be parsed")
        if option.text.startswith("--"):
            rest = rest[1:] if option.text == "--check-hash-based-pycs" else rest
        elif _names_program(option.text, rest):
            return
    if not rest or rest[0].names:
        raise _ColdError("the command names no script")


def _names_program(option: str, rest: list[_Word]) -> bool:
    """Whether Python's options end here, with `-c` or `-m`. Removes an option's argument from `rest`."""
    for place, letter in enumerate(option[1:], start=2):
        if letter in _WITHOUT_HOOK:
            raise _ColdError(f"Python is started with {_WITHOUT_HOOK[letter]}")
        if letter in "iVh?":
            raise _ColdError("the command isn't a Python program")
        if letter in "cmWX":
            argument = option[place:] or (rest.pop(0).text if rest else "")
            if letter == "m" and argument.startswith(_LAUNCHERS):
                raise _ColdError(f"{argument} starts ranks of its own")
            return letter in "cm"
    return False


def _words(command: str) -> Iterator[_Word]:
    """Splits a command as a shell does (POSIX.1-2017, Shell Command Language, 2.3); `&&` is a word."""
    pieces = list[re.Match[str]]()
    for token in _TOKEN.finditer(command):
        kind = token.lastgroup or ""
        if kind in _REFUSED:
            raise _ColdError(_REFUSED[kind])
        if kind not in ("space", "both"):
            pieces.append(token)
            continue
        yield from _joined(pieces)
        pieces.clear()
        if kind == "both":
            yield _Word("&&")
    yield from _joined(pieces)


def _joined(pieces: list[re.Match[str]]) -> Iterator[_Word]:
    if not pieces:
        return
    names: list[str] = []
    for piece in pieces:
        if piece.lastgroup in ("double", "variable"):
            names += [one or other for one, other in _VARIABLE.findall(re.sub(r"\\.", "", piece.group()))]
    yield _Word("".join(_literal(piece) for piece in pieces), tuple(names))


def _literal(piece: re.Match[str]) -> str:
    text = piece.group()
    if piece.lastgroup == "single":
        return text[1:-1]
    if piece.lastgroup == "double":
        return re.sub(r"\\([$`\"\\\n])", r"\1", text[1:-1])
    return text[1:] if piece.lastgroup == "escaped" else text
