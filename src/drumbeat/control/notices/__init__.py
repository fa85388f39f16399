"""Notices of the ends of jobs: what they say, and how they are delivered."""
