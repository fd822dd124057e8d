"""Compiled kernels that workers of several machines share: what counts as one, and that nothing is compiled twice."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from obstore.store import LocalStore

from pock_server.blobs.store import BlobStore
from pock_server.kernels import entries
from pock_server.kernels.shelf import Shelf
from tests.server.building.test_runner import finished, wait_for
from tests.server.building.test_sandbox import small_model
from tests.server.conftest import ServerFactory

ROOM = 1 << 20


@pytest.fixture(scope="module")
def engine_name() -> str:
    """What workers share has nothing to do with the database."""
    return "sqlite"


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(LocalStore(tmp_path / "store", mkdir=True))


def kernel(cache: Path, text: str, data: bytes | None = None) -> str:
    """An entry as the compiler writes it; its key."""
    inputs, made = {"source": text, "zig": "1"}, text.encode() if data is None else data
    key = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
    place = cache.joinpath(*entries.OBJECTS, key[:2], key)
    place.mkdir(parents=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    (place / "inputs.json").write_text(json.dumps({"inputs": inputs, "sha256": digest}))
    (place / "object.o").write_bytes(made)
    return key


def lent(folder: Path) -> set[str]:
    return {path.parent.name for path in folder.rglob("object.o")}


def test_a_second_machine_gets_what_the_first_one_compiled(store: BlobStore, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    keys = {kernel(first, text) for text in ("one", "two")} | {kernel(first, "mine")}
    mine = kernel(second, "mine")
    assert Shelf(store, "w", ROOM).take(first) == 3 and Shelf(store, "w", ROOM).take(first) == 0
    assert Shelf(store, "w", ROOM).lend(second, tmp_path / "lent") == 2
    assert lent(tmp_path / "lent") == keys - {mine}
    for key in keys - {mine}:
        here = tmp_path.joinpath("lent", "objects", key[:2], key)
        there = first.joinpath(*entries.OBJECTS, key[:2], key)
        assert all((here / name).read_bytes() == (there / name).read_bytes() for name in ("object.o", "inputs.json"))
    assert Shelf(store, "another workspace", ROOM).lend(tmp_path / "third", tmp_path / "nothing") == 0


def link(cache: Path, key: str) -> None:
    place = cache.joinpath(*entries.OBJECTS, key[:2], key, "object.o")
    place.rename(cache / "secret")
    place.symlink_to(cache / "secret")


def folder_link(cache: Path, key: str) -> None:
    place = cache.joinpath(*entries.OBJECTS, key[:2])
    place.rename(cache / "elsewhere")
    place.symlink_to(cache / "elsewhere")


def pipe(cache: Path, key: str) -> None:
    place = cache.joinpath(*entries.OBJECTS, key[:2], key, "inputs.json")
    place.unlink()
    os.mkfifo(place)


def renamed(cache: Path, key: str) -> None:
    other = "f" * 64
    place = cache.joinpath(*entries.OBJECTS)
    (place / "ff").mkdir()
    (place / key[:2] / key).rename(place / "ff" / other)


def huge(cache: Path, key: str) -> None:
    os.truncate(cache.joinpath(*entries.OBJECTS, key[:2], key, "object.o"), entries.MOST_OBJECT + 1)


def nonsense(cache: Path, key: str) -> None:
    cache.joinpath(*entries.OBJECTS, key[:2], key, "inputs.json").write_text("[" * 100_000)


@pytest.mark.parametrize("spoil", [link, folder_link, pipe, renamed, huge, nonsense], ids=lambda spoil: spoil.__name__)
def test_what_a_build_left_instead_of_a_kernel_is_not_shared(
    spoil: Callable[[Path, str], None], store: BlobStore, tmp_path: Path
) -> None:
    spoil(tmp_path / "cache", kernel(tmp_path / "cache", "one"))
    assert Shelf(store, "w", ROOM).take(tmp_path / "cache") == 0


def test_another_object_than_the_record_tells_of_is_not_shared_and_not_lent(store: BlobStore, tmp_path: Path) -> None:
    kernel(tmp_path / "cache", "one", b"changed")
    shelf = Shelf(store, "w", ROOM)
    assert shelf.take(tmp_path / "cache") == 0
    key = kernel(tmp_path / "good", "two")
    assert shelf.take(tmp_path / "good") == 1
    content = store.read_key(f"kernels/w/{key}", ROOM)
    assert content is not None
    store.put_key(f"kernels/w/{key}", content + b"damage")
    assert shelf.lend(tmp_path / "empty", tmp_path / "lent") == 0 and not lent(tmp_path / "lent")


def test_a_full_shelf_drops_what_is_oldest(store: BlobStore, tmp_path: Path) -> None:
    first = kernel(tmp_path / "one", "a" * 400)
    room = 2500  # for two
    assert Shelf(store, "w", room).take(tmp_path / "one") == 1
    later = {kernel(tmp_path / "two", letter * 400) for letter in "bc"}
    assert Shelf(store, "w", room).take(tmp_path / "two") == 2
    Shelf(store, "w", room).lend(tmp_path / "empty", tmp_path / "lent")
    assert first not in lent(tmp_path / "lent") and lent(tmp_path / "lent") <= later


def test_a_worker_compiles_nothing_that_one_elsewhere_did(start_server: ServerFactory) -> None:
    """The real worker, twice: the second time with the empty cache of another machine, on the same store."""
    server = start_server(runner="inprocess", sandbox="namespaces", compiler_cache_dir="")
    person = server.person()
    wait_for(lambda: server.services.compiler.load().version != "1", 120)
    order = {
        "model_id": person.model(small_model())["id"],
        "recipe": {"batch": 2, "loss": "cross_entropy", "update": "full"},
    }
    first = finished(person, person.build(**order).json()["id"], 240)
    assert first["failure"] is None and first["summary"]["cache_hits"] < first["summary"]["kernels"], first
    shutil.rmtree(server.services.settings.effective_build_cache_dir)
    assert person.call("DELETE", f"/builds/{first['id']}").status_code == 204
    second = finished(person, person.build(**order).json()["id"], 240)
    assert second["id"] != first["id"] and second["failure"] is None, second
    assert second["summary"]["cache_hits"] == second["summary"]["kernels"]
    assert "come from other workers" in person.get(f"/builds/{second['id']}/log").text
