"""Runs as a table: the values of their fields, filtered, sorted and grouped; and the views that users save."""
