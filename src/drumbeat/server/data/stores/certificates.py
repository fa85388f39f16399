"""Certificate authorities for stores, and certificate errors within the exceptions of their libraries.

The file in SSL_CERT_FILE replaces a library's own authorities. httpx reads it itself; libraries of other stores have
variables of their own (botocore: AWS_CA_BUNDLE; requests: REQUESTS_CA_BUNDLE), which take precedence.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from pathlib import Path

from drumbeat.model.errors import RefusedError
from drumbeat.server.data.stores.connection_errors import with_causes

FILE_VARIABLE = "SSL_CERT_FILE"
REQUESTS_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables of requests, which the libraries of Azure and Google use."""
BOTOCORE_VARIABLES = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE")
_NOT_YET_VALID = 9
_EXPIRED = 10
_OTHER_NAME = (62, 64)
"""X509_V_ERR_CERT_NOT_YET_VALID, _CERT_HAS_EXPIRED, _HOSTNAME_MISMATCH and _IP_ADDRESS_MISMATCH in OpenSSL's
x509_vfy.h.
"""


def authority_file(own: Sequence[str]) -> str | None:
    """Returns the CA file to pass to a library, None = it chooses. own: the variables that it reads.

    Raises RefusedError if the file in SSL_CERT_FILE doesn't exist.
    """
    named = os.environ.get(FILE_VARIABLE)
    if not named or _first_set(own):
        return None
    if not Path(named).is_file():
        what = f"{FILE_VARIABLE} in the server's environment names {named}, which doesn't exist"
        raise RefusedError(what, fix=f"Correct {FILE_VARIABLE} where the server starts.")
    return named


def certificate_problem(error: BaseException, own: Sequence[str] = ()) -> tuple[str, str] | None:
    """Returns what is wrong with a certificate, and what to do; None = the error isn't about one.

    own: the variables in which the library looks for a CA file.
    """
    for one in with_causes(error):
        if isinstance(one, ssl.SSLCertVerificationError):
            return f"the store's certificate isn't trusted here: {one.verify_message}", _fix(one.verify_code, own)
    return None


def _first_set(names: Sequence[str]) -> str:
    """Returns the first of the variables that is set, "" = none."""
    return next((name for name in names if os.environ.get(name)), "")


def _fix(code: int, own: Sequence[str]) -> str:
    if code == _NOT_YET_VALID:
        return "Check the clocks."
    if code == _EXPIRED:
        return "Have the certificate renewed."
    if code in _OTHER_NAME:
        return "Use a name that the certificate is issued for."
    if name := _first_set(own):
        return f"Start the server with a CA file in {name}, which takes precedence over {FILE_VARIABLE}."
    return f"Start the server with a CA file in {FILE_VARIABLE}."
