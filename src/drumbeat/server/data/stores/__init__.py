"""Data in datastores and at URLs: one file for each kind of store. What a store's library raises doesn't leave here."""

from drumbeat.server.data.stores.store_access import StoreAccess

__all__ = ["StoreAccess"]
