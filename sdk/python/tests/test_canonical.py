"""The canonical form, compared with another implementation."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from receipts_client import CanonicalError, canonicalize
from receipts_client.canonical import parse

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53) + 1, 2**53 - 1)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=30,
)


@given(VALUES)
def test_equals_another_implementation(value: Any) -> None:
    assert canonicalize(value) == rfc8785.dumps(value)


@given(VALUES)
def test_is_stable_and_has_the_same_value(value: Any) -> None:
    canonical = canonicalize(value)
    assert canonicalize(parse(canonical)) == canonical
    assert json.loads(canonical, parse_int=float) == value


@given(st.binary(max_size=40) | TEXTS.map(str.encode))
def test_parse_accepts_no_more_than_json(text: bytes) -> None:
    try:
        value = parse(text)
    except CanonicalError:
        return
    assert json.loads(text) == value or value != value


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, 10**400, b"a", {1: 2}, "\ud800", {"\udfff": 1}, {1, 2}]
)
def test_value_without_canonical_form_is_refused(value: Any) -> None:
    with pytest.raises(CanonicalError):
        canonicalize(value)


def test_depth_is_bounded() -> None:
    def nested(depth: int) -> Any:
        value: Any = []
        for _ in range(depth - 1):
            value = [value]
        return value

    canonicalize(nested(32))
    with pytest.raises(CanonicalError):
        canonicalize(nested(33))
    with pytest.raises(CanonicalError):
        canonicalize(parse(b"[" * 100_000 + b"]" * 100_000))
