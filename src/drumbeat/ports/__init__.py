"""The records that stores keep, and Protocols for what has several implementations, or lies in a room above.

Every implementation passes a contract suite (`tests/support`; for engines `drumbeat.engines.contract`). All calls are
synchronous and may block; the control room runs them where blocking does no harm. Foreign exceptions are mapped to
`drumbeat.protocol.errors` where they arise.
"""

from drumbeat.ports.artifacts import JobSpace, LogChunk, SnapshotSpace, StoredFile, iter_pieces
from drumbeat.ports.catalog import Resource, Use
from drumbeat.ports.clock import Clock
from drumbeat.ports.data import DataAccess, Entry
from drumbeat.ports.engines import (
    Doors,
    ElasticEngine,
    Engine,
    Gang,
    NoMachinesError,
    ScaledEngine,
    Sighting,
)
from drumbeat.ports.leases import LEASE_TIMEOUT, LiveServer
from drumbeat.ports.people import HALF_LIFE_SETTING, PersonToken
from drumbeat.ports.run_files import RunFile
from drumbeat.ports.samplers import Sampler
from drumbeat.ports.space import MachineCaches
from drumbeat.ports.store import (
    Change,
    ExperimentUse,
    History,
    JobFilter,
    PendingEffect,
    Record,
    Removal,
    Reservation,
    Submission,
)

__all__ = [
    "HALF_LIFE_SETTING",
    "LEASE_TIMEOUT",
    "Change",
    "Clock",
    "DataAccess",
    "Doors",
    "ElasticEngine",
    "Engine",
    "Entry",
    "ExperimentUse",
    "Gang",
    "History",
    "JobFilter",
    "JobSpace",
    "LiveServer",
    "LogChunk",
    "MachineCaches",
    "NoMachinesError",
    "PendingEffect",
    "PersonToken",
    "Record",
    "Removal",
    "Reservation",
    "Resource",
    "RunFile",
    "Sampler",
    "ScaledEngine",
    "Sighting",
    "SnapshotSpace",
    "StoredFile",
    "Submission",
    "Use",
    "iter_pieces",
]
