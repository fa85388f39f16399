"""Protocols for what has several implementations, or lies in a room above.

Every implementation passes a contract suite (`tests/support`; for engines `drumbeat.engines.contract`). All calls are
synchronous and may block; the server runs them where blocking does no harm. Foreign exceptions are mapped to
`drumbeat.model.errors` where they arise.
"""

from drumbeat.ports.clock import Clock
from drumbeat.ports.data import DataAccess, Entry
from drumbeat.ports.engines import (
    AgentListeners,
    ElasticEngine,
    Engine,
    Gang,
    GangStatus,
    NoMachinesError,
    ScaledEngine,
)
from drumbeat.ports.samplers import Sampler
from drumbeat.ports.space import MachineCaches

__all__ = [
    "AgentListeners",
    "Clock",
    "DataAccess",
    "ElasticEngine",
    "Engine",
    "Entry",
    "Gang",
    "GangStatus",
    "MachineCaches",
    "NoMachinesError",
    "Sampler",
    "ScaledEngine",
]
