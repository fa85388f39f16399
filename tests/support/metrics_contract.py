"""What `SqlMetricStore` promises over each kind of database."""

from __future__ import annotations

from tests.support.metric_catalog_contract import MetricCatalogContract, MetricSearchContract
from tests.support.metric_records_contract import MetricRecordsContract, MetricRunsContract


class MetricStoreContract(MetricRecordsContract, MetricRunsContract, MetricSearchContract, MetricCatalogContract):
    """All of it."""
