"""The registry of models: versions of users, of jobs' outputs and of MLflow's clients, in the same rows."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from drumbeat.core.models import statement as statements
from drumbeat.core.models.statement import Statement
from drumbeat.jobfile.data.assets import ModelAsset
from drumbeat.jobfile.reading.error_messages import nearest
from drumbeat.model.api.data import DataUse
from drumbeat.model.api.models import CheckedPart, ModelCheck, ModelExport, ModelView, RegistryKey
from drumbeat.model.errors import DrumbeatError, NotFoundError, RefusedError, SpecError
from drumbeat.model.plurals import counted
from drumbeat.model.versions import choose_version, newest_listed, newest_of_each
from drumbeat.ports.clock import Clock
from drumbeat.ports.data import DataAccess
from drumbeat.resources.model import MODEL
from drumbeat.server.database import SqlStore
from drumbeat.server.models.alias_names import trouble_with_alias
from drumbeat.server.models.lineage import LineageReader, writer_of
from drumbeat.server.models.model_files import ModelFiles, is_one_file, local_copy, read_files
from drumbeat.server.models.model_kinds import NAMES, STATEMENTS, VERSIONS
from drumbeat.server.models.scan import Scan, scan
from drumbeat.server.resources.records import Resource

log = logging.getLogger(__name__)

ALIAS_MARK = "@"
"""Begins an alias where a version is named."""
LATEST = "latest"

Document = dict[str, Any]
Scanner = Callable[[Path, Sequence[str]], Scan]


@dataclass(frozen=True, kw_only=True)
class NewModel:
    """A version to register. uri: where its files are. made_by: the job, "" = a person."""

    name: str
    uri: str
    type: str = "custom_model"
    version: str = ""
    is_file: bool = False
    made_by: str = ""
    is_trusted: bool = False
    """Whether a scan that finds something dangerous doesn't refuse it."""
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further keys of its document: description, stage, tags, properties, flavors, and those of MLflow."""


@dataclass(frozen=True)
class _Examined:
    files: ModelFiles | None = None
    scan: Scan = field(default_factory=lambda: Scan("unscanned", problem="the server didn't read its files"))
    problem: str = ""


class DangerousModelError(RefusedError):
    """A model has a pickle that does harm when it is loaded."""


class Models:
    """Manages registered models. Thread-safe.

    key: returns the private key in PEM. scanner: looks for harmful pickles. resolve: returns the address of a path as
    users write it. settle: called before each read; moves what an earlier version kept elsewhere.
    """

    kind = MODEL

    def __init__(
        self,
        store: SqlStore,
        data: DataAccess,
        lineage: LineageReader,
        key: Callable[[], bytes],
        *,
        clock: Clock,
        scanner: Scanner = scan,
    ) -> None:
        self._store, self._clock, self._data, self._lineage = store, clock, data, lineage
        self._key, self._scan = key, scanner
        self._sealing = threading.Lock()
        self.resolve: Callable[[str, str], str] = lambda path, _: path
        self.settle: Callable[[], None] = lambda: None

    # --- registration -------------------------------------------------------------------------------------------
    def create(
        self, document: Mapping[str, Any], source: str = "model", *, is_file: bool = False, is_trusted: bool = False
    ) -> tuple[ModelView, bool]:
        """Registers a version. Returns it, and whether it is new. The content of the newest version is that version.

        Raises SpecError; ConflictError if the version exists with other content; RefusedError for a dangerous pickle.
        """
        asked: Any = self.kind.read(document, source)
        if not isinstance(asked, ModelAsset) or not asked.name:
            raise SpecError("the model needs the key `name`", where=source, fix="Write `name: my-model`.")
        more = asked.model_dump(mode="json", include={"description", "stage", "tags", "properties", "flavors"})
        uri = self.resolve(asked.path, f"{source}.path")
        is_file = is_file or (asked.type == "custom_model" and is_one_file(self._data, uri))
        new = NewModel(
            name=asked.name, version=asked.version or "", type=asked.type, uri=uri, is_file=is_file,
            is_trusted=is_trusted,
            more={key: value for key, value in more.items() if value},
        )  # fmt: skip
        made, is_new = self.register(replace(new, made_by=writer_of(new.uri)), is_same_kept=True)
        twins = (one for one in self._versions(made.name) if one.version != made.version)
        same = next((one.version for one in twins if one.digest and one.digest == made.digest), "")
        return replace(self._view(made), same_as=same), is_new

    def register(
        self, new: NewModel, *, is_same_kept: bool = False, is_readable: bool = True, must_read: bool = True
    ) -> tuple[Resource, bool]:
        """Keeps a version with its signed statement. is_same_kept: the content of the newest version is that version.

        is_readable: the server reads its files. must_read: a version whose files can't be read is refused; else it is
        kept, and signed when it is first verified or exported.

        Raises DangerousModelError, ConflictError, and what the store of its files does.
        """
        self.settle()
        examined = self._examined(new, is_readable=is_readable, must_read=must_read)
        files = examined.files
        digest = files.digest if files else ""
        if is_same_kept and not new.version:
            newest = newest_listed(self._versions(new.name))
            place = (digest, new.uri, new.type)
            if newest and digest and (newest.digest, newest.document["uri"], newest.document["type"]) == place:
                return newest, False
        now_ms = self._now_ms()
        facts: Document = {
            "type": new.type, "uri": new.uri, "is_file": new.is_file, "stage": "", "tags": {}, "description": "",
            "files": len(files.listing.files) if files else 0, "size": files.listing.size if files else 0,
            "created_ms": now_ms, "updated_ms": now_ms, "problem": examined.problem,
            "scan": examined.scan.sentence, **new.more,
        }  # fmt: skip
        sent = Resource(VERSIONS, new.name, new.version, facts, digest, self._clock.now(), new.made_by)
        made, is_new = self._store.add_model(sent, new_name(now_ms))
        if is_new and files:
            made = self._seal(made, files, examined.scan)
        return made, is_new

    def _examined(self, new: NewModel, *, is_readable: bool, must_read: bool) -> _Examined:
        if not is_readable:
            return _Examined(problem=f"its files are at {new.uri}, which the server doesn't read")
        try:
            return self._examine(new)
        except DangerousModelError:
            raise
        except DrumbeatError as error:
            if must_read:
                raise
            return _Examined(problem=f"its files couldn't be read: {error.what}")

    def _examine(self, new: NewModel) -> _Examined:
        """Reads the files of a version. Raises RefusedError if they have something dangerous that isn't trusted."""
        files = read_files(self._data, new.uri, is_file=new.is_file)
        with local_copy(self._data, new.uri, files.listing) as root:
            result = self._scan(root, [] if new.is_file else [one.path for one in files.listing.files])
        if result.state == "dangerous" and not new.is_trusted:
            what = f"model {new.name}: loading it could run harmful code: {result.sentence}"
            fix = f"If you trust it: drumbeat model create {new.name} --path {new.uri} --trust"
            raise DangerousModelError(what, where=new.uri, fix=fix)
        return _Examined(files, result)

    def _seal(self, version: Resource, files: ModelFiles, scan_result: Scan) -> Resource:
        """Signs the statement of a version, and keeps it."""
        document = version.document
        run, logged = str(document.get("run_id") or ""), str(document.get("model_id") or "")
        origin = self._lineage.of(version.made_by, document["uri"], run=run, logged_model=logged)
        stated = {
            "model": version.name, "version": version.version, "type": document["type"],
            "flavors": document.get("flavors") or {}, "registered_at": version.created_at.isoformat(), **origin,
            "scan": scan_result.document,
        }  # fmt: skip
        signed = statements.payload(f"{version.name}:{version.version}", files.sums, stated)
        bundle = statements.sign(signed, self._key())
        self._store.put_resource(Resource(STATEMENTS, version.name, version.version, bundle))
        sha256 = hashlib.sha256(signed).hexdigest()
        facts = {"statement": sha256, "problem": "", "scan": scan_result.sentence}
        return self._store.change_resource(
            VERSIONS, version.name, version.version, lambda document: {**document, **facts}
        )

    # --- reading ------------------------------------------------------------------------------------------------
    def list(self, name: str | None = None, *, archived: bool = False) -> Sequence[ModelView]:
        """Returns the newest version of each name, or all versions of one, newest first. archived: also these.

        Raises NotFoundError for a name that doesn't exist.
        """
        self.settle()
        versions = self._store.resources(VERSIONS, name)
        if name is not None and not versions:
            raise self._missing(name)
        aliases, models = self._aliases(), (one for one in versions if not is_prompt(one))
        views = [self._view(one, aliases) for one in models if archived or not one.is_archived]
        return views if name is not None else sorted(newest_of_each(views), key=lambda one: one.name)

    def show(self, name: str, version: str = "") -> ModelView:
        """Returns a version with its origin and the jobs that used it. Raises NotFoundError.

        version: "" = the newest that isn't archived; `@champion` = the one with this alias.
        """
        one = self.find(name, version)
        users = self._store.users(VERSIONS, name, one.version)
        lineage = dict(self._statement(one).lineage) if one.document.get("statement") else dict[str, Any]()
        view = self._view(one)
        return replace(view, lineage=lineage, used_by=tuple(DataUse(job, role) for job, role in users))

    def find(self, name: str, version: str = "") -> Resource:
        """Returns the row of a version, named as in `show`. Raises NotFoundError."""
        self.settle()
        if version.startswith(ALIAS_MARK) and version != f"{ALIAS_MARK}{LATEST}":
            return self._store.resource(VERSIONS, name, self.aliased(name, version.removeprefix(ALIAS_MARK)))
        versions = self._versions(name)
        if not versions:
            raise self._missing(name)
        exact = "" if version == f"{ALIAS_MARK}{LATEST}" else version
        return choose_version(versions, exact) or self._store.resource(VERSIONS, name, exact)

    def aliased(self, name: str, alias: str) -> str:
        """Returns the version with an alias. Raises NotFoundError."""
        aliases = self._aliases().get(name, {})
        if not self._versions(name):
            raise self._missing(name)
        if alias not in aliases:
            others = f"; it has {', '.join(sorted(aliases))}" if aliases else ""
            fix = nearest(alias, aliases) or f"Set it: drumbeat model alias {name}:VERSION {alias}"
            raise NotFoundError(f"model {name} has no alias {alias}{others}", fix=fix)
        return aliases[alias]

    def versions(self, name: str) -> Sequence[Resource]:
        """Returns the rows of a name, newest first."""
        self.settle()
        return self._versions(name)

    def all(self) -> Sequence[Resource]:
        """Returns the rows of all versions, newest first."""
        self.settle()
        return self._store.resources(VERSIONS)

    # --- changes ------------------------------------------------------------------------------------------------
    def set_stage(self, name: str, version: str, stage: str) -> ModelView:
        """Sets the stage of a version, "" = none. Raises NotFoundError."""
        return self._changed(name, version, {"stage": stage})

    def set_archived(self, name: str, version: str, *, is_archived: bool) -> Sequence[ModelView]:
        """Hides a version, or all of a name (""), from lists, or shows it again. Raises NotFoundError."""
        if not self.versions(name):
            raise self._missing(name)
        exact = self.find(name, version).version if version else ""
        chosen = self._store.archive_versions(VERSIONS, name, exact, is_archived=is_archived)
        return [self._changed(name, one.version, {}) for one in chosen]

    def describe(self, name: str, version: str, changes: Mapping[str, Any]) -> ModelView:
        """Changes description, tags or stage of a version. Its content and properties never change.

        Raises NotFoundError.
        """
        return self._changed(
            name, version, {key: changes[key] for key in ("description", "tags", "stage") if key in changes}
        )

    def set_alias(self, name: str, alias: str, version: str) -> ModelView:
        """Has an alias name a version, and no other one. Raises NotFoundError, SpecError."""
        _check_alias(alias)
        exact = self.find(name, version)
        self._change_name(name, lambda body: {**body, "aliases": {**body["aliases"], alias: exact.version}})
        return self._view(exact)

    def remove_alias(self, name: str, alias: str) -> None:
        """Removes an alias. Raises NotFoundError."""
        self.aliased(name, alias)
        self._change_name(
            name, lambda body: {**body, "aliases": {key: one for key, one in body["aliases"].items() if key != alias}}
        )

    def delete(self, name: str, version: str) -> None:
        """Removes a version with its aliases; its files stay. Raises NotFoundError."""
        exact = self.find(name, version).version
        self._store.remove_models((VERSIONS, STATEMENTS), name, exact)
        if self._versions(name):
            self._change_name(
                name,
                lambda body: {**body, "aliases": {key: one for key, one in body["aliases"].items() if one != exact}},
            )
        # The row of the name stays: the number of a removed version isn't given again.
        else:
            self._change_name(name, lambda body: {**body, "aliases": {}})

    def _changed(self, name: str, version: str, facts: Mapping[str, Any]) -> ModelView:
        exact, now_ms = self.find(name, version).version, self._now_ms()
        return self._view(
            self._store.change_resource(
                VERSIONS, name, exact, lambda document: {**document, **facts, "updated_ms": now_ms}
            )
        )

    def _change_name(self, name: str, change: Callable[[Document], Document]) -> None:
        now_ms = self._now_ms()
        self._store.change_resource(NAMES, name, "", lambda body: {**change(body), "updated_ms": now_ms})

    # --- statements ---------------------------------------------------------------------------------------------
    def key(self) -> RegistryKey:
        """Returns the public key of this registry."""
        public = statements.public_key(self._key())
        return RegistryKey(public.decode(), statements.fingerprint(public))

    def verify(self, name: str, version: str) -> ModelCheck:
        """Verifies the signature of a version, the bytes of its files, and each hash of its origin.

        Raises NotFoundError; RefusedError if it has no statement yet and can't be signed.
        """
        one, key = self._sealed(self.find(name, version)), self.key()
        findings: list[CheckedPart] = []
        try:
            stated = statements.verify(self._bundle(one), key.pem.encode())
        except DrumbeatError as error:
            findings.append(CheckedPart("signature", "wrong", error.what))
            return ModelCheck(one.name, one.version, is_valid=False, key=key.sha256, findings=tuple(findings))
        findings.append(CheckedPart("signature", "verified", f"signed by this registry, key {key.sha256[:12]}"))
        findings.extend(self._verify_files(one, stated))
        findings.extend(self._lineage.verify(stated.lineage))
        is_valid = all(finding.state != "wrong" for finding in findings)
        return ModelCheck(one.name, one.version, is_valid=is_valid, key=key.sha256, findings=tuple(findings))

    def _verify_files(self, one: Resource, stated: Statement) -> list[CheckedPart]:
        document = one.document
        try:
            files = read_files(self._data, document["uri"], is_file=document.get("is_file", False), is_fresh=True)
        except NotFoundError:
            return [CheckedPart("files", "wrong", f"the files aren't in {document['uri']} any more")]
        except DrumbeatError as error:
            return [CheckedPart("files", "wrong", f"the files can't be read: {error.what}")]
        wrong = statements.differences(stated.files, files.sums)
        if wrong:
            return [CheckedPart("files", "wrong", sentence) for sentence in wrong]
        return [CheckedPart("files", "verified", f"{counted(len(stated.files), 'file')} as signed")]

    def export(self, name: str, version: str) -> ModelExport:
        """Returns what belongs beside the files of a version. Raises what `verify` does."""
        one = self._sealed(self.find(name, version))
        texts = {statements.FILE: json.dumps(self._bundle(one), indent=1) + "\n"}
        if job := writer_of(one.document["uri"]) or one.made_by:
            texts |= self._lineage.texts(job)
        return ModelExport(one.document["uri"], one.document.get("is_file", False), texts)

    def _sealed(self, one: Resource) -> Resource:
        """Returns a version with a statement, which is signed now if none was. Raises RefusedError."""
        if one.document.get("statement"):
            return one
        document = one.document
        with self._sealing:
            one = self._store.resource(VERSIONS, one.name, one.version)
            if one.document.get("statement"):
                return one
            try:
                new = NewModel(
                    name=one.name, uri=document["uri"], is_file=document.get("is_file", False), is_trusted=True
                )
                examined = self._examine(new)
            except DrumbeatError as error:
                what = f"model {one.name}:{one.version} can't be signed: {error.what}"
                raise RefusedError(what, where=document["uri"], fix=error.fix) from error
            assert examined.files is not None  # noqa: S101 - `_examine` reads them or raises
            return self._seal(one, examined.files, examined.scan)

    def _bundle(self, one: Resource) -> Document:
        return self._store.resource(STATEMENTS, one.name, one.version).document

    def _statement(self, one: Resource) -> Statement:
        return statements.unverified(self._bundle(one))

    # --- inside -------------------------------------------------------------------------------------------------
    def _versions(self, name: str) -> Sequence[Resource]:
        return self._store.resources(VERSIONS, name)

    def _aliases(self) -> dict[str, dict[str, str]]:
        """Returns the version of each alias, by name."""
        return {one.name: one.document["aliases"] for one in self._store.resources(NAMES)}

    def _missing(self, name: str) -> NotFoundError:
        names = sorted({one.name for one in self._store.resources(VERSIONS)})
        return NotFoundError(f"there is no model {name}", fix=nearest(name, names) or "List them: drumbeat model list")

    def _now_ms(self) -> int:
        return int(self._clock.now().timestamp() * 1000)

    def _view(self, one: Resource, aliases: Mapping[str, Mapping[str, str]] | None = None) -> ModelView:
        document = one.document
        named = (self._aliases() if aliases is None else aliases).get(one.name, {})
        return ModelView(
            one.name, one.version, document["type"], document["uri"], one.created_at,
            description=document.get("description") or "", stage=document.get("stage") or "",
            aliases=tuple(sorted(alias for alias, version in named.items() if version == one.version)),
            tags=document.get("tags") or {}, properties=document.get("properties") or {},
            flavors=document.get("flavors") or {}, is_archived=one.is_archived,
            is_file=bool(document.get("is_file")), files=document.get("files", 0), size=document.get("size", 0),
            digest=one.digest, made_by=one.made_by, run=document.get("run_id") or "",
            source=document.get("source") or "", statement=document.get("statement") or "",
            scan=document.get("scan") or "", problem=document.get("problem") or "",
        )  # fmt: skip


def is_prompt(one: Resource) -> bool:
    """Whether MLflow keeps a prompt in the row, and no model."""
    tags: Mapping[str, str] = one.document.get("tags") or {}
    return tags.get("mlflow.prompt.is_prompt") == "true"


def new_name(now_ms: int, **more: Any) -> Document:
    """Returns the document that versions of a new name share."""
    return {
        "created_ms": now_ms, "updated_ms": now_ms, "description": "", "tags": {}, "aliases": {}, "last_version": 0,
        **more,
    }  # fmt: skip


def _check_alias(alias: str) -> None:
    if trouble := trouble_with_alias(alias):
        raise SpecError(trouble, where="alias", fix="Choose another alias, such as `champion`.")
