"""The kinds of rows of models in the table of resources."""

NAMES, VERSIONS, STATEMENTS = "registered_model", "model", "model_statement"
"""What versions of a name share; a version; the signed statement of a version."""
DATA = "data"
