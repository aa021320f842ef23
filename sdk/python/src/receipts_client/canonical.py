"""The canonical form of JSON (RFC 8785, JCS)."""

from __future__ import annotations

import json
import math
import re
from typing import Any

_encode = json.JSONEncoder(ensure_ascii=False).encode
_SURROGATE = re.compile("[\ud800-\udfff]")
_DEPTH_MAX = 32


class CanonicalError(ValueError):
    """A value without a canonical form. The text says why."""


def canonicalize(value: Any) -> bytes:
    """Return the canonical form of a JSON value as UTF-8.

    ``value`` is built of ``dict`` with ``str`` names, ``list``, ``tuple``, ``str``, ``int``,
    ``float``, ``bool`` and ``None``, at most 32 levels deep. An ``int`` is written as the nearest
    double, as other languages read it (RFC 8785, section 3.2.2.3).

    Raises ``CanonicalError`` for NaN, infinities, numbers beyond a double, half a surrogate pair
    and other types.
    """
    parts: list[str] = []
    _write(value, parts, _DEPTH_MAX)
    return "".join(parts).encode()


def parse(text: bytes) -> Any:
    """Return the JSON value of ``text``.

    Raises ``CanonicalError`` for what isn't I-JSON (RFC 7493): a member twice, NaN, or a byte order
    mark.
    """
    try:
        return json.loads(
            text.decode(), object_pairs_hook=_unique, parse_constant=_refuse, parse_int=_integer
        )
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise CanonicalError(f"isn't JSON: {error}") from error


def _integer(text: str) -> int | float:
    # Python refuses to parse very long integers; a double holds none of them anyway.
    return int(text) if len(text) < 400 else float(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise CanonicalError("an object has two members of one name")
    return members


def _refuse(name: str) -> Any:
    raise CanonicalError(f"{name} isn't a number of JSON")


def _write(value: Any, parts: list[str], depth: int) -> None:
    if isinstance(value, str):
        parts.append(_string(value))
    elif value is True:
        parts.append("true")
    elif value is False:
        parts.append("false")
    elif value is None:
        parts.append("null")
    elif isinstance(value, (int, float)):
        parts.append(_number(value))
    elif depth == 0:
        raise CanonicalError(f"nested deeper than {_DEPTH_MAX} arrays and objects")
    elif isinstance(value, dict):
        _write_object(value, parts, depth)
    elif isinstance(value, (list, tuple)):
        parts.append("[")
        for index, element in enumerate(value):
            if index:
                parts.append(",")
            _write(element, parts, depth - 1)
        parts.append("]")
    else:
        raise CanonicalError(f"{type(value).__name__} isn't a type of JSON")


def _write_object(value: dict[Any, Any], parts: list[str], depth: int) -> None:
    names = list(value)
    for name in names:
        if not isinstance(name, str):
            raise CanonicalError(f"the name {name!r} of a member isn't a text")
    parts.append("{")
    # UTF-16 code units, as ECMAScript sorts (RFC 8785, section 3.2.3).
    names.sort(key=None if all(map(str.isascii, names)) else _utf16)
    for index, name in enumerate(names):
        if index:
            parts.append(",")
        parts.append(_string(name))
        parts.append(":")
        _write(value[name], parts, depth - 1)
    parts.append("}")


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")


def _string(text: str) -> str:
    if not text.isascii() and _SURROGATE.search(text):
        raise CanonicalError("a text has half a surrogate pair")
    return _encode(text)


def _number(value: int | float) -> str:
    """Write a number as ECMAScript does (ECMA-262, Number::toString)."""
    try:
        number = float(value)
    except OverflowError as error:
        raise CanonicalError(f"{value} is beyond a double") from error
    if not math.isfinite(number):
        raise CanonicalError(f"{number} isn't a number of JSON")
    if number == 0:
        return "0"
    # repr has the shortest digits that read back, as ECMAScript.
    mantissa, _, exponent = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    if fraction == "0":
        fraction = ""
    digits = (whole + fraction).lstrip("0")
    # The point's position behind the first of `digits`.
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    sign = "-" if number < 0 else ""
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{'+' if point > 0 else '-'}{abs(point - 1)}"
