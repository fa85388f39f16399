"""The era of a server: when its home was last restored from a backup. Agents obey no server of an earlier era.

A server says its era to agents in a header, signed with the key of its home, which each copy of the home has, too.
Agents can't make one: they repeat the latest that they have heard, and so a server learns that a copy has replaced it.
"""

from __future__ import annotations

import hashlib
import hmac

HEADER = "Drumbeat-Era"
"""Of requests and answers between agents and servers."""
MAX_LENGTH = 100


def era_text(number: int, key: bytes) -> str:
    """Returns the header's value; "" for a home that was never restored. number: seconds since 1970."""
    if not number:
        return ""
    signature = hmac.new(key, f"drumbeat era {number}".encode(), hashlib.sha256).hexdigest()
    return f"{number}.{signature}"


def era_number(text: str) -> int:
    """Returns the number in a header's value, without asking who signed it; 0 = there is none."""
    number = text.partition(".")[0]
    return int(number) if len(text) <= MAX_LENGTH and number.isascii() and number.isdecimal() else 0
