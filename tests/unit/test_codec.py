"""Values come back from JSON as they went in, or are refused."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import functools
import threading
import typing
import uuid
from pathlib import PurePosixPath
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core.codec import ANY, Codec, call_fingerprint, fingerprint, result_codec
from outlast.core.errors import NotSerializable, PayloadTooLarge


@dataclasses.dataclass
class Part:
    path: str
    lines: list[int]


@dataclasses.dataclass
class Plan:
    parts: dict[str, Part]
    due: datetime.datetime | None = None


class Colour(enum.Enum):
    RED = "red"


class Point(typing.NamedTuple):
    x: int
    y: float


class Answer(msgspec.Struct):
    text: str


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("ab\0é😀"), inner),
    max_leaves=20,
)  # fmt: skip


@given(plain)
def test_every_plain_json_value_comes_back_as_it_was(value: Any) -> None:
    text, decoded = Codec().record(value, "x")
    assert decoded == value
    assert Codec().read(text) == value


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        ("a\0b 😀 \u2028", ANY),
        (2**63, ANY),
        (-(2**63), int),
        (10**400, ANY),
        ((1, 2), tuple[int, int]),
        ({1, 2}, set[int]),
        (frozenset({"a"}), frozenset[str]),
        (b"\x00\xff", bytes),
        ({1: "a"}, dict[int, str]),
        (datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC), datetime.datetime),
        (datetime.timedelta(days=2, microseconds=1), datetime.timedelta),
        (decimal.Decimal("0.10"), decimal.Decimal),
        (uuid.UUID(int=7), uuid.UUID),
        (PurePosixPath("/a/b"), PurePosixPath),
        (Colour.RED, Colour),
        (Point(1, 2.0), Point),
        (Answer("x"), Answer),
        (Plan({"a": Part("p", [1])}, datetime.datetime(2026, 1, 1)), Plan),  # noqa: DTZ001
        ([Part("p", []), None], list[Part | None]),
        (None, None),
        (3, float),
    ],
)
def test_what_is_annotated_comes_back_as_what_it_was(value: Any, annotation: Any) -> None:
    text, decoded = Codec(annotation).record(value, "x")
    assert decoded == value
    assert type(decoded) is type(value) or annotation is float
    assert Codec(annotation).read(text) == value


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (float("nan"), ANY),
        ([{"x": float("inf")}], ANY),
        (float("nan"), float),
        (float("nan"), float | None),
        (Part("p", [float("nan")]), Part),  # type: ignore[list-item]
        ("\ud800", ANY),
        ({"\udfff": 1}, ANY),
        ({1, 2}, ANY),
        (b"x", ANY),
        ((1, 2), ANY),
        ({1: "a"}, ANY),
        (Part("p", []), ANY),
        (datetime.datetime(2026, 1, 1), ANY),  # noqa: DTZ001
        (Colour.RED, ANY),
        (threading.Lock(), ANY),
        (object(), Part),
        ("7", int),
        (lambda: 1, ANY),
    ],
)
def test_what_would_come_back_as_something_else_is_refused(value: Any, annotation: Any) -> None:
    with pytest.raises(NotSerializable, match="it was not written"):
        Codec(annotation).record(value, "the result")


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(NotSerializable):
        Codec().write(loop, "x")


def test_a_large_value_is_refused_with_its_size_and_the_limit() -> None:
    with pytest.raises(PayloadTooLarge, match=r"52,428,802 bytes.*1,048,576"):
        Codec().write("x" * (50 << 20), "the result")


def test_a_type_that_nobody_can_rebuild_is_refused_only_when_it_is_used() -> None:
    class Opaque:
        pass

    codec = Codec(Opaque)
    with pytest.raises(NotSerializable):
        codec.write(Opaque(), "x")


def test_the_annotation_of_a_nested_function_is_found_beside_it() -> None:
    @dataclasses.dataclass
    class Local:
        x: int

    def make() -> Local:
        return Local(1)

    assert result_codec(make).record(make(), "x")[1] == Local(1)
    assert result_codec(functools.partial(make)).annotation is Local


def test_arguments_have_one_fingerprint_whatever_the_order_of_dicts_and_sets() -> None:
    assert fingerprint([{"a": 1, "b": {3, 1, 2}}]) == fingerprint([{"b": {2, 3, 1}, "a": 1}])
    assert fingerprint([1, 2]) != fingerprint([[1, 2]])
    assert fingerprint(["1"]) != fingerprint([1])
    assert fingerprint(["ab", "c"]) != fingerprint(["a", "bc"])


def test_what_has_no_json_counts_by_its_type() -> None:
    assert fingerprint([threading.Lock()]) == fingerprint([threading.Lock()])
    assert fingerprint([threading.Lock()]) != fingerprint([object()])


def test_what_partial_adds_counts_as_arguments() -> None:
    bound = functools.partial(print, 1, end="")
    assert call_fingerprint(bound, [2]) == call_fingerprint(
        functools.partial(print, end=""), [1, 2]
    )
    assert call_fingerprint(bound, [2]) != call_fingerprint(print, [1, 2])
