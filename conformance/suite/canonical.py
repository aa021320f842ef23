"""The canonical form of receipts (RFC 8785), written for this suite alone.

Receipts of the scenarios have texts, objects and arrays only, so numbers are left out.
"""

import json


def canonicalize(value):
    """Return the canonical form as bytes. Raises ``TypeError`` for a number."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        members = (canonicalize(name) + b":" + canonicalize(value[name]) for name in names)
        return b"{" + b",".join(members) + b"}"
    if isinstance(value, list):
        return b"[" + b",".join(map(canonicalize, value)) + b"]"
    if isinstance(value, str) or value is None or isinstance(value, bool):
        return json.dumps(value, ensure_ascii=False).encode()
    raise TypeError(f"{value!r} isn't in a receipt")
