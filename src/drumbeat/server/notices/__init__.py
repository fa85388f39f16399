"""Notices of jobs' ends, sent to web hooks and by mail."""
