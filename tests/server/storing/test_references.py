"""References as texts: what they mean, and that no text does harm."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pock_server.names.reference import BadReference, Reference, parse

ID = "018f0000-0000-7000-8000-000000000000"
DIGITS = "0123456789ab"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("pets", Reference(name="pets")),
        ("pets:v3", Reference(name="pets", version=3)),
        ("pets:v0", Reference(name="pets", version=0)),
        ("pets:v" + "9" * 200, Reference(name="pets", version=0)),
        ("pets:stable", Reference(name="pets", tag="stable")),
        (f"pets@sha256:{DIGITS}", Reference(name="pets", digest=DIGITS)),
        (ID, Reference(id=ID)),
        (f"{ID}:v1", Reference(name=ID, version=1)),
        (ID.upper(), Reference(name=ID.upper())),
        ("a:b:v2", Reference(name="a:b", version=2)),
        ("a:b", Reference(name="a", tag="b")),
        ("a: b", Reference(name="a: b")),
        ("a:", Reference(name="a:")),
        (":v1", Reference(name=":v1")),
        ("a@b.example:v1", Reference(name="a@b.example", version=1)),
        ("a:v٣", Reference(name="a:v٣")),
        (f"a@sha256:x@sha256:{DIGITS}", Reference(name="a@sha256:x", digest=DIGITS)),
    ],
)
def test_a_reference(text: str, meant: Reference) -> None:
    assert parse(text) == meant


@pytest.mark.parametrize("text", ["", "a@sha256:", "a@sha256:0123", f"@sha256:{DIGITS}", "a@sha256:" + "0" * 65])
def test_what_refers_to_nothing(text: str) -> None:
    with pytest.raises(BadReference):
        parse(text)


@given(st.text(max_size=100) | st.text(alphabet="ab:@v1sh256.", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = parse(text)
    except BadReference:
        assert not text or "@sha256:" in text
    else:
        assert found.id or found.name
        assert sum(part is not None for part in (found.version, found.tag, found.digest)) <= 1


@given(st.text(min_size=1, max_size=50), st.integers(1, 2**31 - 1))
def test_every_name_can_be_meant(name: str, version: int) -> None:
    assert parse(f"{name}:v{version}") == Reference(name=name, version=version if version < 10**9 else 0) or re.search(
        "@sha256:", name
    )
