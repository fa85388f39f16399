"""Environments that another node has made: fetched by content as inputs are, laid out here, and handed on."""
