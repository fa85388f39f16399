"""What the scripts of this folder share. They run with an unmodified MLflow client."""

import mlflow
from mlflow.exceptions import MlflowException

IS_NEW = not mlflow.__version__.startswith("2.")


def refused(code, call, *arguments, **options):
    """The call raises with this code of MLflow's protocol; returns the message."""
    refusal = None
    try:
        call(*arguments, **options)
    except MlflowException as error:
        refusal = error
    assert refusal is not None, f"{call} was not refused"
    assert refusal.error_code == code, (refusal.error_code, refusal.message)
    return refusal.message
