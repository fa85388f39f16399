"""`model`: registers models, follows them back to their jobs, verifies and exports them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drumbeat.cli.commands.archiving import All, archive_commands
from drumbeat.cli.commands.download import progress
from drumbeat.cli.commands.jobs import AsJson
from drumbeat.cli.commands.registration import register
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.formatting import count, format_moment, format_size
from drumbeat.cli.terminal.help import Yes, add_command, new_family
from drumbeat.cli.terminal.json_output import print_json
from drumbeat.cli.terminal.screen import fill_table, make_table, pairs, show
from drumbeat.cli.terminal.untrusted_text import make_safe
from drumbeat.model.errors import SpecError
from drumbeat.model.plurals import counted
from drumbeat.resources.model import MODEL

if TYPE_CHECKING:
    from drumbeat.model.api.models import ModelCheck, ModelView

app = new_family(MODEL.sentences.about)

Title = Annotated[
    str,
    typer.Argument(
        metavar="NAME[:VERSION]", help="`digits:3`, `digits@champion` for an alias, or `digits` for the newest."
    ),
]
Exact = Annotated[str, typer.Argument(metavar="NAME:VERSION", help="The version, such as `digits:3`.")]
Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the file. Repeatable.")
]

MARKS = {"verified": "✓", "gone": "-", "wrong": "✗"}


def split_title(title: str) -> tuple[str, str]:
    """Returns name and version of `m:3`, `m@champion`, `m`, each also behind `azureml:`. Raises SpecError."""
    text = title.removeprefix("azureml:")
    for mark in (":", "@"):
        name, separator, version = text.rpartition(mark)
        if separator:
            if not name or not version:
                what = f"{title!r} isn't a version of a model"
                raise SpecError(what, where="NAME:VERSION", fix="Write `digits:3` or `digits@champion`.")
            return name, version if mark == ":" else f"@{version}"
    return text, ""


def create(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The name of the model.")] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="The file that describes it; see docs/models.md."),
    ] = None,
    sets: Sets = None,
    path: Annotated[
        str | None, typer.Option("--path", metavar="PATH", help="Where it is: a local path, or an address.")
    ] = None,
    type_: Annotated[
        str | None,
        typer.Option("--type", metavar="TYPE", help="custom_model (the default), mlflow_model or triton_model."),
    ] = None,
    version: Annotated[
        str | None, typer.Option("--version", metavar="VERSION", help="The next number by default.")
    ] = None,
    datastore: Annotated[
        str, typer.Option("--datastore", metavar="NAME", help="The datastore that a local path is uploaded to.")
    ] = "default",
    trust: Annotated[
        bool, typer.Option("--trust", help="Register it although a dangerous pickle was found in it.")
    ] = False,
) -> None:
    """Register a version of a model from a file or from options.

    Uploads a local path first, to a folder named by its content; only records an address. The server signs a statement
    with the SHA-256 of each file and where the model came from.
    """
    options = {"name": name, "path": path, "type": type_, "version": version}
    create = partial(connect().create_model, datastore=datastore, trust=trust)
    made = register(create, "model", file, sets, options)
    print(format_created(made))


def format_created(made: ModelView) -> str:
    """Formats a registered version, and how to use it."""
    lines = [
        f"model {made.title} registered: {made.type}, {count(made.files, 'file')}, {format_size(made.size)}",
        f"  in {make_safe(made.uri)}",
        f"  signed: {made.statement[:12]}" if made.statement else f"  not signed: {make_safe(made.problem)}",
        f"  scan: {make_safe(made.scan)}",
        *([f"  version {made.same_as} has the same content"] if made.same_as else []),
        f"  to use it, write in a job's file: type: {made.type}, path: azureml:{made.title}",
    ]
    return "\n".join(lines)


def list_models(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="List all versions of this model.")] = None,
    archived: All = False,
    as_json: AsJson = False,
) -> None:
    """List models: the newest version of each name, or all versions of one name."""
    models = connect().models(name, archived=archived)
    if as_json:
        print_json(models)
    elif not models:
        print(MODEL.sentences.empty)
    else:
        rows = [MODEL.sentences.columns(one) for one in models]
        cells = ([format_moment(one.created_at) if key == "created" else value for key, value in row.items()]
                 for one, row in zip(models, rows, strict=True))  # fmt: skip
        show(fill_table(make_table(*rows[0]), cells))


def show_model(title: Title, as_json: AsJson = False) -> None:
    """Show a version of a model, and its way back: job, code, data, environment."""
    one = connect().model(*split_title(title))
    if as_json:
        print_json(one)
    else:
        show(pairs((key, value) for key, value in details(one) if value))


def details(one: ModelView) -> Iterator[tuple[str, str]]:
    """Yields what `show` prints, by name; what is empty is left out."""
    yield "model", one.title + (" (archived)" if one.is_archived else "")
    yield "type", one.type
    yield "description", one.description
    yield "stage", one.stage
    yield "aliases", ", ".join(one.aliases)
    yield "tags", _table(one.tags)
    yield "properties", _table(one.properties)
    yield "where", one.uri
    yield "files", f"{count(one.files, 'file')}, {format_size(one.size)}" if one.files else ""
    yield "digest", one.digest
    yield "created", format_moment(one.created_at)
    yield (
        "signed",
        f"statement {one.statement}" if one.statement else f"no: {one.problem or 'when it is verified or exported'}",
    )
    yield "scan", one.scan
    yield "made by", f"job {one.made_by}" if one.made_by else "a person"
    yield from way_back(one.lineage)
    yield "used by", ", ".join(f"{use.job} ({use.role})" for use in one.used_by)


def way_back(lineage: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the origin in a statement, by hash."""
    if job := lineage.get("job"):
        person = f" by {job['person']}" if job.get("person") else ""
        yield "  job", f"{job['name']}, submitted {job['submitted_at'][:19]}{person}"
        yield "  plan", f"sha256 {job['plan']}"
        yield "  job file", f"sha256 {job['file']}"
        yield "  part of", job.get("parent") or ""
    yield "  registered by", lineage.get("registered_by") or ""
    if snapshot := lineage.get("code", {}).get("snapshot"):
        yield "  code", f"snapshot {snapshot}"
    for one in lineage.get("data", ()):
        title = (
            f"{one['kind']} {one['name']}:{one['version']}, digest {one['digest']}" if one.get("name") else one["uri"]
        )
        yield f"  input {one['input']}", title
    environment: dict[str, str] = lineage.get("environment") or {}
    yield "  environment", ", ".join(f"{key} {value}" for key, value in environment.items())
    if run := lineage.get("mlflow"):
        yield "  MLflow", ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in run.items())
    metrics: dict[str, dict[str, object]] = lineage.get("metrics") or {}
    yield "  metrics", ", ".join(f"{name} {one['value']}" for name, one in metrics.items())


def _table(values: dict[str, str]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in values.items())


def stage(
    title: Exact, stage: Annotated[str, typer.Argument(metavar="STAGE", help="Free text, such as Production.")]
) -> None:
    """Set the stage of a version; an empty text removes it."""
    made = connect().change_model(*split_title(title), stage=stage)
    print(
        f"model {made.title} is in stage {make_safe(made.stage)}" if made.stage else f"model {made.title} has no stage"
    )


def alias(
    title: Title,
    alias: Annotated[str, typer.Argument(metavar="ALIAS", help="Such as `champion`: `azureml:digits@champion`.")],
    remove: Annotated[bool, typer.Option("--remove", help="Remove the alias from the model.")] = False,
) -> None:
    """Give a version an alias, which names no other version of the model then."""
    name, version = split_title(title)
    if remove:
        connect().remove_model_alias(name, alias)
        print(f"model {name} has no alias {alias} any more")
        return
    made = connect().set_model_alias(name, version, alias)
    print(f"azureml:{name}@{alias} is version {made.version} now")


def delete(title: Exact, _yes: Yes = False) -> None:
    """Delete the entry of a version of a model. The files stay where they are."""
    name, version = split_title(title)
    if not version:
        what = f"name the version of {name} to delete"
        raise SpecError(what, where="NAME:VERSION", fix=f"See them: drumbeat model list {name}")
    connect().delete_model(name, version)
    print(MODEL.sentences.deleted.format(name=title.removeprefix("azureml:")))


def verify(
    title: Annotated[
        str | None, typer.Argument(metavar="[NAME:VERSION]", help="A version in the registry, such as `digits:3`.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="FOLDER", help="An exported model. Needs no server.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option("--key", metavar="FILE", help="The registry's public key, from `drumbeat model key`.")
    ] = None,
    signature: Annotated[
        Path | None,
        typer.Option("--signature", metavar="FILE", help="The signature, if it isn't FOLDER/model.sig."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Verify a model: its signature, the bytes of its files, and what each hash of its origin leads to.

    With --folder and --key, an exported model is verified on a machine without a server or a network. Exits with 1 and
    names each file that isn't as it was signed.
    """
    if (title is None) == (folder is None):
        raise SpecError("name a version, or a folder with --folder", fix="For example: drumbeat model verify digits:3")
    check = _verified_folder(folder, key, signature) if folder else connect().verify_model(*split_title(str(title)))
    if as_json:
        print_json(check)
    else:
        print(format_check(check))
    if not check.is_valid:
        raise typer.Exit(1)


def format_check(check: ModelCheck) -> str:
    """Formats the result of verifying."""
    lines = [f"{MARKS[one.state]} {one.part}: {make_safe(one.sentence)}" for one in check.findings]
    verdict = "is what was signed" if check.is_valid else "is NOT what was signed"
    return "\n".join([*lines, f"model {make_safe(check.name)}:{make_safe(check.version)} {verdict}"])


def _verified_folder(folder: Path, key: Path | None, signature: Path | None) -> ModelCheck:
    from drumbeat.client import exported_models as exported
    from drumbeat.core.models import statement as statements
    from drumbeat.model.api.models import CheckedPart, ModelCheck
    from drumbeat.model.errors import DrumbeatError

    if key is None:
        what = "a folder is verified with the registry's key"
        raise SpecError(what, where="--key", fix="Ask the registry for it: drumbeat model key > key.pem")
    bundle = exported.read_signature(signature or folder / exported.SIGNATURE)
    try:
        pem = key.read_bytes()
    except OSError as error:
        raise SpecError(f"the key can't be read: {error.strerror}", where=str(key), fix="Name its file.") from None
    name = statements.fingerprint(pem)
    try:
        stated = statements.verify(bundle, pem)
    except DrumbeatError as error:
        findings = (CheckedPart("signature", "wrong", error.what),)
        return ModelCheck(folder.name, "?", is_valid=False, key=name, findings=findings)
    title, _, version = stated.name.rpartition(":")
    findings = [CheckedPart("signature", "verified", f"signed with the key {name[:12]}")]
    inner = folder / "model"
    wrong = statements.differences(
        stated.files, exported.digests(inner if inner.is_dir() and not signature else folder)
    )
    findings += [CheckedPart("files", "wrong", sentence) for sentence in wrong]
    if not wrong:
        findings.append(CheckedPart("files", "verified", f"{counted(len(stated.files), 'file')} as signed"))
    plan, wanted = folder / exported.PLAN, stated.lineage.get("job", {}).get("plan")
    if wanted and plan.is_file():
        is_same = exported.digest(plan) == wanted
        sentence = "plan.json is the plan that was signed" if is_same else "plan.json has changed"
        findings.append(CheckedPart("job", "verified" if is_same else "wrong", sentence))
    is_valid = all(one.state != "wrong" for one in findings)
    return ModelCheck(title, version, is_valid=is_valid, key=name, findings=tuple(findings))


def export(
    title: Title,
    to: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="A new folder.")],
) -> None:
    """Copy a version to a folder: its files in `model`, and beside them signature, plan and story of its job."""
    name, version = split_title(title)
    server = connect()
    with progress() as advance:
        moved = server.export_model(name, version, to, on_bytes=advance)
    print(f"{count(moved.files, 'file')} in {to}/model, its signature in {to}/model.sig")
    print(f"  verify it anywhere: drumbeat model verify --folder {to} --key KEY")


def key() -> None:
    """Print the public key by which the statements of this registry are verified."""
    print(connect().registry_key().pem, end="")


for _name, _command, _example in (
    ("create", create, "drumbeat model create digits --path ./model"),
    ("list", list_models, "drumbeat model list digits"),
    ("show", show_model, "drumbeat model show digits@champion"),
    ("stage", stage, "drumbeat model stage digits:3 Production"),
    ("alias", alias, "drumbeat model alias digits:3 champion"),
    ("verify", verify, "drumbeat model verify digits:3"),
    ("export", export, "drumbeat model export digits:3 --to digits-3"),
    *archive_commands(MODEL, split_title),
    ("delete", delete, "drumbeat model delete digits:1"),
    ("key", key, "drumbeat model key"),
):
    add_command(app, _name, _command, _example)
