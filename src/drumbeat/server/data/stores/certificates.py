"""Which certificate authorities stores are trusted by, and errors of certificates in whatever libraries raise.

The file that SSL_CERT_FILE names takes the place of the authorities that a library brings. httpx reads it itself; the
libraries of the other stores have variables of their own (botocore: AWS_CA_BUNDLE; requests: REQUESTS_CA_BUNDLE), which
go first.
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
"""What requests reads, and so do the libraries of Azure and Google."""
BOTOCORE_VARIABLES = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE")
_NOT_YET_VALID = 9
_EXPIRED = 10
_OTHER_NAME = (62, 64)
"""X509_V_ERR_CERT_NOT_YET_VALID, _CERT_HAS_EXPIRED, _HOSTNAME_MISMATCH and _IP_ADDRESS_MISMATCH in OpenSSL's
x509_vfy.h.
"""


def authority_file(own: Sequence[str]) -> str | None:
    """The file of authorities that a library is to be given, None = it chooses. own: the variables that it reads.

    Raises RefusedError where SSL_CERT_FILE names no file.
    """
    named = os.environ.get(FILE_VARIABLE)
    if not named or _first_set(own):
        return None
    if not Path(named).is_file():
        what = f"{FILE_VARIABLE} of the server's environment names {named}, and there is no such file"
        raise RefusedError(what, fix=f"Correct {FILE_VARIABLE} where the server starts.")
    return named


def certificate_problem(error: BaseException, own: Sequence[str] = ()) -> tuple[str, str] | None:
    """What is wrong with the certificate that an error was raised for, and what to do; None = it is another error.

    own: the variables in which the library that raised it looks for a file of authorities.
    """
    for one in with_causes(error):
        if isinstance(one, ssl.SSLCertVerificationError):
            return f"the store's certificate isn't trusted here: {one.verify_message}", _fix(one.verify_code, own)
    return None


def _first_set(names: Sequence[str]) -> str:
    """The first of the variables that is set, "" = none."""
    return next((name for name in names if os.environ.get(name)), "")


def _fix(code: int, own: Sequence[str]) -> str:
    if code == _NOT_YET_VALID:
        return "See that the clocks are right."
    if code == _EXPIRED:
        return "Have the certificate renewed."
    if code in _OTHER_NAME:
        return "Use a name that the certificate is made out to."
    if name := _first_set(own):
        return f"Name a file with its authority in {name} where the server starts: it goes before {FILE_VARIABLE}."
    return f"Name a file with its authority in {FILE_VARIABLE} where the server starts."
