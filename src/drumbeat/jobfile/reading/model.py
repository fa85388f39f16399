"""The checked model, of which every piece of a job file is made.

Here lives how a mapping is taken in (None is "not set", enums in any case, the class by its `type`) and how a
contradiction is said. What the keys mean lives with the models; how an error is worded lives in `problems`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, ClassVar, Literal, NamedTuple, Self, cast, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import CoreSchema, InitErrorDetails
from pydantic_core.core_schema import no_info_before_validator_function

from drumbeat.jobfile.reading.error_messages import (
    MAX_PROBLEMS,
    Seen,
    collect_problems,
    fold,
    nearest,
    short,
    shown,
    words,
)
from drumbeat.jobfile.reading.field_types import complaint, filled
from drumbeat.model.errors import SpecError

Loc = tuple[str | int, ...]
CHANGING = "changing"
"""The context in which a model is checked after a key of it was set."""


class Contradiction(NamedTuple):
    """A key (relative to the model that reports it), what is invalid about it, and what to do.

    `near` is a piece of the value's text that the message is about.
    """

    key: Loc
    what: str
    fix: str = ""
    near: str = ""


class Model(BaseModel):
    """A piece of a job file. Constructing one in Python raises `SpecError`, as loading does."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_by_name=True)

    noun: ClassVar[str] = "the job"
    """What messages call it where it is the whole of a file."""
    ignored: ClassVar[frozenset[str]] = frozenset()
    """Keys that are accepted and mean nothing."""
    read_only: ClassVar[frozenset[str]] = frozenset()
    """Keys of a service's answers, which files don't have."""

    def __init__(self, /, **data: Any) -> None:
        _fill(self, data, {})

    # Says to pydantic that this __init__ only validates, so that nested models don't go through it.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess]

    def __setattr__(self, key: str, value: Any) -> None:
        """Sets a key, as scripts for Azure do: `job.resources.instance_count = 4`. drumbeat itself changes no model.

        Raises SpecError for a value that no file may have; the model then stays as it was. Whether the keys agree is
        checked when the job is submitted: a script changes one after the other.
        """
        changed = self.model_copy()
        _fill(changed, {**set_keys(self), key: value}, CHANGING)
        for part in ("__dict__", "__pydantic_fields_set__"):
            object.__setattr__(self, part, getattr(changed, part))

    @classmethod
    def made(cls, keys: Mapping[str, Any]) -> Self:
        """One from a table of keys; the same as naming them, for callers that don't know their types."""
        return cls(**keys)

    @model_validator(mode="before")
    @classmethod
    def _take_in(cls, value: object, info: ValidationInfo) -> object:
        """Drops empty keys; a model's own `type` always counts as written."""
        if not isinstance(value, Mapping):
            return value
        written = cast("Mapping[str, object]", value)
        if isinstance(info.context, dict):
            cast("Seen", info.context)[id(written)] = cls
        taken = {k: v for k, v in written.items() if not (v is None and cls.may_be_empty(k)) and k not in cls.ignored}
        kind = cls.kind()
        if kind and "type" not in taken:
            taken["type"] = kind
        return taken

    @model_validator(mode="after")
    def _agrees(self, info: ValidationInfo) -> Model:
        if info.context == CHANGING:
            return self
        details = [
            InitErrorDetails(type=complaint(c.what, c.fix, c.near), loc=c.key, input=None)
            for c in islice(self.contradictions(), MAX_PROBLEMS + 1)
        ]
        if details:
            raise ValidationError.from_exception_data(type(self).__name__, details)
        return self

    def contradictions(self) -> Iterator[Contradiction]:
        """Yields what is invalid about the keys together, although each alone is valid."""
        return iter(())

    @classmethod
    def document_contradictions(cls, document: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Contradictions that can be seen in a document whose keys aren't all valid."""
        del document
        return iter(())

    @classmethod
    def key_names(cls) -> list[str]:
        """The keys as files have them."""
        return [field.alias or name for name, field in cls.model_fields.items()]

    @classmethod
    def may_be_empty(cls, key: str) -> bool:
        """Whether `key:` with nothing behind it means that the key isn't set."""
        return key in cls.model_fields and not cls.model_fields[key].is_required()

    @classmethod
    def kind(cls) -> str | None:
        """The one word that this model's `type` has, if it has exactly one."""
        field = cls.model_fields.get("type")
        if field is None or get_origin(field.annotation) is not Literal:
            return None
        names = get_args(field.annotation)
        return str(names[0]) if len(names) == 1 else None


def set_keys(model: Model) -> dict[str, Any]:
    """The keys of a model that were set, as they are."""
    return {key: getattr(model, key) for key in model.model_fields_set}


def _fill(model: Model, keys: Mapping[str, Any], context: Seen | str) -> None:
    try:
        model.__pydantic_validator__.validate_python(keys, self_instance=model, context=context)
    except ValidationError as error:
        name = type(model).__name__
        seen = context if isinstance(context, dict) else {}
        raise SpecError.from_problems(
            collect_problems(error, keys, seen, lambda loc, _at, _near: dotted((name, *loc)))
        ) from None


def dotted(loc: Loc) -> str:
    """`inputs.data.path`."""
    return ".".join(short(str(part)) for part in loc)


class AnyCase:
    """On a `Literal`: `TensorBoard`, `tensor_board` and `TENSOR-BOARD` are one word.

    older: further words, each for one of them.
    """

    def __init__(self, **older: str) -> None:
        self._older = older

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        names = {fold(name): name for name in get_args(source)} | self._older

        def read(value: object) -> object:
            if isinstance(value, str) and fold(value) in names:
                return names[fold(value)]
            raise complaint(
                f"expected {words(dict.fromkeys(names.values()), 'or')}, got {shown(value)}",
                nearest(value, names.values()),
            )

        return no_info_before_validator_function(read, handler(source))


def by_type(
    *classes: type[Model], what: str, otherwise: type[Model] | None = None, absent: type[Model] | None = None
) -> BeforeValidator:
    """Reads a mapping as the one of `classes` that its `type` names.

    `otherwise` reads every other type, `absent` a mapping without one.
    """

    def read(value: object, info: ValidationInfo) -> object:
        if not isinstance(value, Mapping):
            if isinstance(value, (*classes, *([otherwise] if otherwise else []))):
                return value
            raise complaint(f"expected a mapping that describes {what}, got {shown(value)}")
        written = cast("Mapping[str, object]", value)
        return chosen(written, classes, what, otherwise, absent).model_validate(written, context=info.context)

    return BeforeValidator(read)


def chosen(
    written: Mapping[str, object],
    classes: tuple[type[Model], ...],
    what: str,
    otherwise: type[Model] | None,
    absent: type[Model] | None,
) -> type[Model]:
    """The class that `type` names; a complaint at `type` otherwise."""
    kinds = {fold(str(cls.kind())): cls for cls in classes}
    names = [str(cls.kind()) for cls in classes]
    kind = written.get("type")
    if kind is None and absent is not None:
        return absent
    if kind is None:
        raise complaint(f"{what} has no `type`", f"Write `type:` {words(names, 'or')}.")
    if isinstance(kind, str) and fold(kind) in kinds:
        return kinds[fold(kind)]
    close = nearest(kind, names)
    if otherwise is not None and isinstance(kind, str) and not close:
        return otherwise
    details = InitErrorDetails(
        type=complaint(f"{what} can be {words(names, 'or')}, not {shown(kind)}", close), loc=("type",), input=kind
    )
    raise ValidationError.from_exception_data(what, [details])


def model_or_text(cls: Callable[[], type[Model]], what: str) -> BeforeValidator:
    """Reads a mapping as `cls()` and leaves a text alone. Called late, because models may hold themselves."""

    def read(value: object, info: ValidationInfo) -> object:
        if isinstance(value, Mapping):
            return cls().model_validate(value, context=info.context)
        if not isinstance(value, str | cls()):
            raise complaint(f"expected {what}, or a mapping, got {shown(value)}")
        # Refused here already: as a member of a union it would be refused once for each member.
        return filled(value) if isinstance(value, str) else value

    return BeforeValidator(read)
