"""Job documents for the tests of this room: random valid ones, and random nonsense."""

from typing import Any

from hypothesis import strategies as st

IDENTIFIER = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True)
NAME = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,12}", fullmatch=True)
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
FILLED = TEXT.filter(lambda text: text.strip())
NO_EXPRESSION = FILLED.filter(lambda text: "${{" not in text and "$[[" not in text)
WORD = NO_EXPRESSION.filter(lambda text: len(text.split()) == 1 and "<" not in text)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)


def tables(values: st.SearchStrategy[Any], keys: st.SearchStrategy[str] = TEXT) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(keys, values, max_size=3)


def some(required: dict[str, Any], **optional: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional)


LITERAL = st.booleans() | st.integers(-(2**70), 2**70) | NUMBER | TEXT
JSON = st.recursive(st.none() | LITERAL, lambda inner: st.lists(inner, max_size=3) | tables(inner), max_leaves=5)
COUNT = st.integers(1, 1000)


DISTRIBUTION = st.one_of(
    some({"type": st.sampled_from(["pytorch", "PyTorch", "mpi", "Mpi"])}, process_count_per_instance=COUNT),
    some({"type": st.just("TensorFlow")}, parameter_server_count=st.integers(0, 3)),
    some({"type": st.just("ray")}, port=st.integers(1, 65535), include_dashboard=st.booleans()),
)
ENVIRONMENT = st.one_of(
    WORD,
    some({"image": WORD}, conda_file=FILLED | tables(JSON), tags=tables(TEXT), version=st.integers(0, 9).map(str)),
    some({"build": some({"path": FILLED}, dockerfile_path=st.just("docker/Dockerfile"))}),
)
INPUT = LITERAL | some({"path": FILLED}, type=st.sampled_from(["uri_file", "mltable"]), mode=st.just("download"))
OUTPUT = st.none() | some({}, type=st.just("uri_folder"), mode=st.sampled_from(["upload", "rw_mount"]), name=FILLED)
EXTENSIONS = some(
    {},
    max_retries=st.integers(0, 9),
    grace_s=st.floats(0, 1e6),
    warm_start=st.booleans(),
    environment=st.sampled_from(["job", "current"]),
    mpi_options=st.lists(TEXT, max_size=2),
    checkpoints=some({}, keep=COUNT, copies_gib=st.integers(0, 9)),
)
COMMAND_JOB = some(
    {"command": NO_EXPRESSION, "environment": ENVIRONMENT},
    type=st.just("command"),
    name=NAME,
    display_name=TEXT,
    description=TEXT,
    tags=tables(TEXT),
    properties=tables(TEXT),
    compute=WORD,
    code=FILLED,
    environment_variables=tables(TEXT, NAME),
    inputs=tables(INPUT, IDENTIFIER),
    outputs=tables(OUTPUT, IDENTIFIER),
    distribution=DISTRIBUTION,
    resources=some({}, instance_count=COUNT, shm_size=st.just("2g"), properties=tables(JSON), docker_args=TEXT),
    limits=some({}, timeout=st.floats(1, 1e6)),
    queue_settings=some({}, job_tier=st.sampled_from(["Spot", "premium"]), priority=st.just("high")),
    services=tables(some({"type": st.sampled_from(["ssh", "tensor_board", "mine"])}, port=COUNT), IDENTIFIER),
    drumbeat=EXTENSIONS,
)

KEYS = [
    "command", "code", "environment", "inputs", "outputs", "distribution", "type", "resources", "instance_count",
    "limits", "timeout", "services", "identity", "drumbeat", "tags", "path", "jobs", "trial", "search_space", "values",
    "objective", "sampling_algorithm", "component", "min_value", "image", "build", "conda_file", "early_termination",
]  # fmt: skip
WORDS = [
    "command", "sweep", "pipeline", "pytorch", "tensorflow", "choice", "uniform", "grid", "bandit", "managed", "ssh",
    "parallel", "spark", "${{inputs.x}}", "${{", "$[[", "${{parent.jobs.a.outputs.b}}", "spot",
    "\0", "\ud800", "9" * 5000,
]  # fmt: skip
NONSENSE_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner),
    max_leaves=20,
)
NONSENSE = st.dictionaries(st.sampled_from(KEYS), NONSENSE_VALUE, max_size=8)
"""Documents that look like jobs and hold anything anywhere."""

YAML_BITS = st.lists(
    st.sampled_from(
        [*KEYS, *WORDS, ": ", ":\n  ", "\n", "\n  ", "- ", "[", "]", "{", "}", ", ", "&a ", "*a", "<<: ",
         "!!int ", "!x ", "'", '"', "\\x", "|\n", ">-\n", "# ", "---\n", "...\n",
         "%YAML 1.1\n", "? ", "~", "1", "0x1f", "1e3", ".inf",
         ".nan", "yes", "\t", "\r\n", "\u2028", "\x85", "\ufeff", "@", "`", "é"]
    ),
    max_size=40,
).map("".join)  # fmt: skip
