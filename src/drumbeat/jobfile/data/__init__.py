"""Inputs and outputs of jobs, data assets, datastores and their credentials."""
