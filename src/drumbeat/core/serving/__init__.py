"""Decisions about deployments: how many replicas one should have (`scaling`)."""
