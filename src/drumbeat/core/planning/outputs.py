"""Plans where a job's outputs are stored when it has ended, and under which names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from drumbeat.core.planning.inputs import DataFacts, known_place
from drumbeat.core.planning.path_on_compute import appears_at
from drumbeat.jobfile.data.inputs_outputs import Output
from drumbeat.jobfile.data.paths import DEFAULT_DATASTORE, Address, StoreReference, is_asset_name, reference_to
from drumbeat.jobfile.reading import expressions
from drumbeat.model import folder_layout
from drumbeat.model.errors import RefusedError, SpecError
from drumbeat.model.plan import OutputPlan
from drumbeat.model.states import State


def plan_outputs(
    outputs: Mapping[str, Output], words: Mapping[str, str | None], facts: DataFacts, texts: Iterable[str] = ()
) -> tuple[OutputPlan, ...]:
    """Plans the outputs of a job, the default one last. words: its literal inputs by name; its own name under "".

    texts: shell texts in which the job may name its outputs. An output `artifacts` that none of them names is what the
    ranks write to `./outputs`, as in Azure, in place of the default one.

    Raises SpecError, UnknownNameError, RefusedError.
    """
    planned = [_one(name, value, words, facts) for name, value in outputs.items()]
    if folder_layout.DEFAULT_OUTPUT not in outputs and not _is_default(outputs.get(folder_layout.ARTIFACTS), texts):
        planned.append(OutputPlan(folder_layout.DEFAULT_OUTPUT, "uri_folder", "rw_mount"))
    return tuple(_apart(planned))


def _is_default(artifacts: Output | None, texts: Iterable[str]) -> bool:
    """Whether an output `artifacts` is the folder `./outputs`."""
    if artifacts is None or artifacts.type == "uri_file":
        return False
    named = [(one.kind, one.name) for text in texts for one in expressions.references(text)]
    return ("outputs", folder_layout.ARTIFACTS) not in named


def output_notes(outputs: Mapping[str, Output]) -> Iterator[str]:
    """Yields notes on outputs whose place the next job overwrites although they become named data."""
    for name, value in outputs.items():
        asked = expressions.references(value.path) if value.path else ()
        if value.name and value.path and all(one.kind in ("default_datastore", "output_name") for one in asked):
            yield (
                f"outputs.{name}: the next job with this path replaces its files, and no job can name this version of "
                f"{value.name} then; with `${{{{name}}}}` in `path` each job has a folder of its own"
            )


def _one(name: str, value: Output, words: Mapping[str, str | None], facts: DataFacts) -> OutputPlan:
    mode = value.mode if value.mode in ("upload", "direct") else "rw_mount"
    plain = OutputPlan(name, value.type, mode, appears=appears_at(value, f"outputs.{name}"))
    if value.name is not None and not is_asset_name(value.name):
        what = f"{value.name!r} can't be the name of data"
        raise SpecError(what, where=f"outputs.{name}.name", fix="Use letters, digits, `.`, `-` and `_`.")
    taken = {one.version for one in facts.versions.get(value.name or "", ())} if value.version else set[str]()
    if value.version in taken:
        what = f"outputs.{name} is to become azureml:{value.name}:{value.version}, and that is there already"
        raise RefusedError(what, where=f"outputs.{name}.version", fix="Choose another, or leave it out: the next one.")
    uri = _place(name, value.path, words, facts) if value.path else ""
    if mode == "direct" and not uri:
        what = f"outputs.{name} is to be written by the ranks themselves, and names no place in a store"
        raise RefusedError(what, where=f"outputs.{name}.path", fix="Give it a `path`, or use mode upload.")
    if mode == "direct" and value.type != "uri_file":
        what = f"outputs.{name} is a folder, and stores sign links for one file at a time"
        raise RefusedError(what, where=f"outputs.{name}.mode", fix="Use type uri_file, or mode upload.")
    if uri and value.type == "uri_file" and not _names_file(uri):
        what = f"outputs.{name} is a file, and {value.path} names none"
        raise RefusedError(what, where=f"outputs.{name}.path", fix="Write the file's name at the end of the path.")
    return replace(plain, uri=uri, asset=value.name or "", version=value.version or "")


def _place(name: str, path: str, words: Mapping[str, str | None], facts: DataFacts) -> str:
    where = f"outputs.{name}.path"
    match reference_to(_filled(path, name, words, where), where):
        case StoreReference() as reference:
            place = known_place(reference, facts, where)
            if why := facts.read_only.get(place.datastore):
                what = f"outputs.{name} can't be written to datastore {place.datastore}: {why}"
                raise RefusedError(what, where=where, fix="Name another datastore: drumbeat datastore list")
            return place.uri
        case Address(uri) if not uri.startswith(("http:", "https:")):
            return uri
        case _:
            what = f"outputs.{name} can't be written to {path}"
            fix = "Name a place in a datastore: azureml://datastores/NAME/paths/PATH"
            raise RefusedError(what, where=where, fix=fix)


def _names_file(uri: str) -> bool:
    """Whether an address has a place in its store that can be a file's."""
    place = reference_to(uri)
    if isinstance(place, StoreReference):
        return bool(place.path)
    folder, _, file = uri.partition("://")[2].rpartition("/")
    return bool(folder and file)


def _filled(path: str, output: str, words: Mapping[str, str | None], where: str) -> str:
    """Returns the path with inputs and the names of job, output and default datastore filled in."""
    names = {"name": words[""], "default_datastore": DEFAULT_DATASTORE, "output_name": output}

    def resolve(reference: expressions.Reference) -> str | None:
        if reference.kind in names:
            return names[reference.kind]
        if reference.kind == "inputs" and words.get(reference.name) is not None:
            return words[reference.name]
        what = f"a path knows ${{{{name}}}} and values of inputs, not ${{{{{reference.kind}.{reference.name}}}}}"
        raise RefusedError(what, where=where)

    try:
        return expressions.render(path, resolve)
    except SpecError as error:
        fix = "A path knows `${{name}}`, and `${{inputs.x}}` of values."
        raise SpecError(error.what, where=where, fix=fix) from None


def _apart(planned: list[OutputPlan]) -> Iterator[OutputPlan]:
    """Yields the outputs; raises RefusedError where two of them would be written to one place."""
    taken: dict[str, str] = {}
    for one in planned:
        place = one.uri.rstrip("/")
        if place and place in taken:
            what = f"outputs {taken[place]} and {one.name} go to the same place, {place}"
            raise RefusedError(what, where=f"outputs.{one.name}.path", fix="Give each a folder of its own.")
        taken[place] = one.name
        yield one


def is_published(output: OutputPlan, state: State) -> bool:
    """Whether an output leaves the job's folder, as the job has ended: what isn't complete goes only where the job
    wrote as if to a disk.
    """
    return bool(output.uri) and output.mode != "direct" and (state is State.COMPLETED or output.mode == "rw_mount")


def is_registered(output: OutputPlan, state: State) -> bool:
    """Whether an output becomes a data asset."""
    return bool(output.asset) and state is State.COMPLETED
