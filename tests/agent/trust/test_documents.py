"""Trust documents: no attack on one is believed."""

from __future__ import annotations

import base64
import copy
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pock_agent.errors import Untrusted
from pock_agent.trust.document import MAX_VERSION, pin
from tests.agent.conftest import Device
from tests.agent.service_double import (
    public_text,
    sign_trust,
    trust_text,
)
from tests.agent.trust.authority import Authority, Key, catch_up, two_of_two

Forge = Callable[[Authority], dict[str, Any]]


def changed(**changes: Any) -> Forge:
    """A version 2 that is properly signed and says something else in these fields."""
    return lambda a: sign_trust({**a.text(2), **changes}, [a.root])


def without(name: str) -> Forge:
    def forge(a: Authority) -> dict[str, Any]:
        text = a.text(2)
        del text[name]
        return sign_trust(text, [a.root])

    return forge


def resigned(forge: Callable[[dict[str, Any]], Any]) -> Forge:
    """A proper version 2, changed after it was signed."""

    def forged(a: Authority) -> dict[str, Any]:
        document = sign_trust(a.text(2), [a.root])
        return dict(forge(document) or document)

    return forged


def flip(name: str) -> Callable[[dict[str, Any]], Any]:
    def change(document: dict[str, Any]) -> None:
        place = document if name == "payload" else document["signatures"][0]
        raw = bytearray(base64.b64decode(place[name]))
        raw[len(raw) // 2] ^= 1
        place[name] = base64.b64encode(raw).decode()

    return change


def same_key_twice(a: Authority) -> dict[str, Any]:
    document = two_of_two(a, [a.root])
    document["signatures"] *= 2
    return document


ATTACKS: dict[str, tuple[Forge, str]] = {
    "a stranger signed": (lambda a: sign_trust(a.text(2), [a.stranger]), "0 of the root keys of version 1"),
    "nobody signed": (lambda a: sign_trust(a.text(2), []), "0 of the root keys of version 1"),
    "the signing key signed": (lambda a: sign_trust(a.text(2), [a.double.key]), "0 of the root keys of version 1"),
    "new root keys appoint themselves": (
        lambda a: sign_trust(a.text(2, roots=[a.stranger]), [a.stranger]),
        "0 of the root keys of version 1",
    ),
    "new root keys have not agreed": (
        lambda a: sign_trust(a.text(2, roots=[a.other_root]), [a.root]),
        "0 of its own root keys",
    ),
    "one of two signed": (lambda a: two_of_two(a, [a.root]), "1 of its own root keys"),
    "one of two signed twice": (same_key_twice, "1 of its own root keys"),
    "a signature of another key under the name of the root key": (
        resigned(lambda d: d["signatures"][0].update(signature=base64.b64encode(bytes(64)).decode())),
        "0 of the root keys",
    ),
    "one bit of the text is changed": (resigned(flip("payload")), ""),
    "one bit of the signature is changed": (resigned(flip("signature")), "0 of the root keys"),
    "signed as work, not as trust": (
        lambda a: {
            **a.double.seal(a.text(2), a.root),
        },
        "unknown field",
    ),
    "a version is left out": (lambda a: sign_trust(a.text(3), [a.root]), "has version 3"),
    "the same version again": (lambda a: sign_trust(a.text(1), [a.root]), "has version 1"),
    "version 0": (lambda a: sign_trust(a.text(0), [a.root]), "outside 1.."),
    "a version beyond all others": (lambda a: sign_trust(a.text(MAX_VERSION + 1), [a.root]), "outside 1.."),
    "a version that is a truth value": (changed(version=True), "int was expected"),
    "a version that is a text": (changed(version="2"), "int was expected"),
    "threshold 0": (
        lambda a: sign_trust(a.text(2, root={"keys": [public_text(a.root)], "threshold": 0}), [a.root]),
        "outside",
    ),
    "a threshold above the keys": (
        lambda a: sign_trust(a.text(2, root={"keys": [public_text(a.root)], "threshold": 2}), [a.root]),
        "outside 1..1",
    ),
    "no root keys": (changed(root={"keys": [], "threshold": 1}), "0 keys"),
    "no signing keys": (changed(signing={"keys": []}), "0 keys"),
    "too many signing keys": (
        lambda a: changed(signing={"keys": [public_text(Key.generate()) for _ in range(17)]})(a),
        "17 keys",
    ),
    "a root key twice, to be counted twice": (
        lambda a: sign_trust(a.text(2, root={"keys": [public_text(a.root)] * 2, "threshold": 2}), [a.root]),
        "twice",
    ),
    "a key that is too short": (changed(signing={"keys": ["AAAA"]}), "3 bytes instead of 32"),
    "a key that is no base64": (changed(signing={"keys": ["!" * 44]}), "base64"),
    "a key that is a number": (changed(signing={"keys": [7]}), "no key"),
    "an unknown field": (changed(delegations={}), "unknown field 'delegations'"),
    "an unknown field of root": (changed(root={"keys": [], "threshold": 1, "x": 1}), "unknown field 'x'"),
    "no expiry": (without("expires_at"), "lacks the field 'expires_at'"),
    "an expiry that is a number": (changed(expires_at=9e9), "RFC 3339"),
    "another type of document": (changed(type="pock-work"), "another type"),
    "a newer format": (changed(format=2), "update this agent"),
    "a list": (lambda a: sign_trust([1], [a.root]), "not an object"),
    "no JSON": (lambda a: sign_trust(b"\xff{", [a.root]), "not valid JSON"),
    "a field given twice": (
        lambda a: sign_trust(json.dumps(a.text(2)).encode()[:-1] + b', "version": 2}', [a.root]),
        "given twice",
    ),
    "nesting that exhausts the stack": (lambda a: sign_trust(b"[" * 40_000, [a.root]), "not valid JSON"),
    "NaN": (lambda a: sign_trust(b'{"version": NaN}', [a.root]), "not valid JSON"),
    "a text that is too long": (lambda a: sign_trust(b" " * 70_000, [a.root]), "longer than"),
    "an answer that is too long": (lambda a: sign_trust(b" " * 3_000_000, [a.root]), "longer than"),
    "too many signatures": (resigned(lambda d: {**d, "signatures": d["signatures"] * 33}), "33 signatures"),
    "an unknown field beside the payload": (resigned(lambda d: {**d, "note": 1}), "unknown field 'note'"),
    "no signatures at all": (resigned(lambda d: {"payload": d["payload"]}), "lacks the field"),
    "signatures that are a text": (resigned(lambda d: {**d, "signatures": "x"}), "list was expected"),
    "a payload that is no base64": (resigned(lambda d: {**d, "payload": "%"}), "base64"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_next_version_is_not_believed_when(
    name: str, modern: Device, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    forge, reason = ATTACKS[name]
    before = modern.state.trust.read_bytes()
    authority.publish(forge(authority))
    assert catch_up(modern) == 1
    assert modern.state.trust.read_bytes() == before
    assert "after version 1 is not used" in caplog.text and reason in caplog.text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
PLACES = ["type", "format", "version", "issued_at", "expires_at", "root", "signing", "root/keys", "root/threshold"]
KEY = Key.generate()


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.sampled_from(PLACES), value=JSON)
def test_any_value_anywhere_is_read_or_refused_and_nothing_else(place: str, value: Any) -> None:
    text = copy.deepcopy(trust_text(1, [KEY], [KEY]))
    *parents, last = place.split("/")
    target = text
    for name in parents:
        target = target[name]
    target[last] = value
    try:
        assert pin(sign_trust(text, [KEY])).version >= 1
    except Untrusted as error:
        logging.debug("%s", error)


@settings(max_examples=100)
@given(document=JSON | st.dictionaries(st.sampled_from(["payload", "signatures"]), JSON))
def test_any_document_is_refused_and_nothing_else(document: Any) -> None:
    with pytest.raises(Untrusted):
        pin(document)
