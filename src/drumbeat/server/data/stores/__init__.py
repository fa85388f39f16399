"""Data in datastores and at URLs, with a file for each kind of store. Errors of store libraries don't leave here."""

from drumbeat.server.data.stores.store_access import StoreAccess

__all__ = ["StoreAccess"]
