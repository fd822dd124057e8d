"""Looking into datasets: samples, the numbers of tensors, label counts, and the models that they fit."""

from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from pock_server.blobs.store import BlobStore
from pock_server.datasets import looking
from tests.server.harness import Person, Server, assert_problem, safetensors

NAN, INFINITE = float("nan"), float("inf")


def push(person: Person, data: bytes, name: str = "digits") -> str:
    made = person.post("/datasets", {"name": name, "digest": person.upload(data)})
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


def preview(person: Person, dataset: str, **query: Any) -> Any:
    answer = person.get(f"/datasets/{dataset}/preview", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("dtype", ["bool", "u1", "i1", "i2", "u2", "f2", "i4", "u4", "f4", "f8", "i8", "u8"])
def test_preview_shows_the_numbers_of_the_samples(person: Person, dtype: str) -> None:
    values = (np.arange(5 * 2 * 3).reshape(5, 2, 3) % 7 * 3).astype(dtype)
    dataset = push(person, save({"other": np.ones((5, 2), np.float64), "x": values}))
    found = preview(person, dataset, tensor="x", offset=1, count=3)
    assert found["shape"] == [5, 2, 3] and found["offset"] == 1 and found["values"] == 6
    assert found["samples"] == values[1:4].reshape(3, 6).tolist()


def bfloat16(values: np.ndarray[Any, np.dtype[np.float32]]) -> bytes:
    return (values.view(np.uint32) >> 16).astype("<u2").tobytes()


def test_preview_shows_bfloat16(reader: Person) -> None:
    values = np.array([[1.5, -2.0], [0.0, 3.0e38]], np.float32)
    file = safetensors({"x": ("BOOL", (2, 4))})
    header, data = file[:-8].replace(b'"BOOL"', b'"BF16"').replace(b"[2, 4]", b"[2, 2]"), bfloat16(values)
    found = preview(reader, push(reader, header + data), tensor="x")
    assert found["dtype"] == "bf16"
    assert found["samples"] == [[1.5, -2.0], [0.0, pytest.approx(3.0e38, rel=0.01)]]


def test_what_is_not_finite_is_null_and_counted(reader: Person) -> None:
    values = np.array([[1.0, NAN], [INFINITE, -3.0], [-INFINITE, 0.5]], np.float32)
    dataset = push(reader, save({"x": values}))
    assert preview(reader, dataset, tensor="x")["samples"] == [[1.0, None], [None, -3.0], [None, 0.5]]
    (found,) = reader.get(f"/datasets/{dataset}/statistics").json()["tensors"]
    assert found == {
        "tensor": "x", "counted": 6, "of": 6, "min": -3.0, "max": 1.0, "mean": -0.5, "nan": 1, "infinite": 2,
    }  # fmt: skip


def test_floats_have_the_digits_of_their_dtype(reader: Person) -> None:
    dataset = push(reader, save({"x": np.array([[0.1]], np.float32)}))
    assert preview(reader, dataset, tensor="x")["samples"] == [[0.1]]


def test_statistics_of_every_tensor(person: Person) -> None:
    random = np.random.default_rng(0)
    tensors: dict[str, Any] = {
        "x": random.normal(size=(50, 8)).astype(np.float32),
        "huge": np.full((50, 2), 1.5e308),
        "labels": random.integers(0, 4, 50),
        "only_nan": np.full((50, 1), NAN, np.float16),
    }
    dataset = push(person, save(tensors))
    found = {one["tensor"]: one for one in person.get(f"/datasets/{dataset}/statistics").json()["tensors"]}
    assert set(found) == set(tensors)
    for name in ("x", "labels", "huge"):
        assert found[name]["counted"] == found[name]["of"] == tensors[name].size
        assert found[name]["min"] == pytest.approx(tensors[name].min())
        assert found[name]["max"] == pytest.approx(tensors[name].max())
    assert found["x"]["mean"] == pytest.approx(tensors["x"].mean(), abs=1e-6)
    assert found["labels"]["mean"] == pytest.approx(tensors["labels"].mean())
    assert found["huge"]["mean"] == pytest.approx(1.5e308)
    assert found["only_nan"]["mean"] is None and found["only_nan"]["nan"] == 50


def test_labels_are_counted(person: Person) -> None:
    labels = np.array([3, 0, 3, 3, -1, 0], np.int64)
    dataset = push(person, save({"x": np.zeros((6, 1), np.float32), "labels": labels}))
    assert person.get(f"/datasets/{dataset}/labels").json() == {
        "tensor": "labels",
        "counted": 6,
        "of": 6,
        "distinct": 3,
        "classes": [{"label": -1, "count": 1}, {"label": 0, "count": 2}, {"label": 3, "count": 3}],
    }
    refused = person.get(f"/datasets/{dataset}/labels", params={"tensor": "x"})
    assert_problem(refused, 422, 10003)
    assert "f32" in refused.json()["detail"]


def test_no_classes_where_every_label_is_another(reader: Person) -> None:
    dataset = push(reader, save({"labels": np.arange(40_000, dtype=np.int32)}))
    found = reader.get(f"/datasets/{dataset}/labels").json()
    assert found["distinct"] is None and found["classes"] == []
    dataset = push(reader, save({"labels": np.arange(3000, dtype=np.int32) // 2}), "many")
    found = reader.get(f"/datasets/{dataset}/labels").json()
    assert found["distinct"] == 1500 and len(found["classes"]) == looking.MOST_CLASSES


def test_of_a_large_tensor_parts_from_everywhere_are_counted(reader: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "MOST_COUNTED", 1 << 20)
    labels = np.repeat(np.arange(8, dtype=np.uint8), 1 << 19)  # sorted: its beginning has one class alone
    dataset = push(reader, save({"labels": labels}))
    read: list[int] = []
    store = BlobStore.read_range

    def counting(self: Any, digest: str, start: int, length: int) -> bytes:
        read.append(length)
        return store(self, digest, start, length)

    monkeypatch.setattr(BlobStore, "read_range", counting)
    found = reader.get(f"/datasets/{dataset}/labels").json()
    assert found["of"] == 1 << 22 and found["counted"] == 1 << 20
    assert len(found["classes"]) > 2
    (numbers,) = reader.get(f"/datasets/{dataset}/statistics").json()["tensors"]
    assert numbers["counted"] == 1 << 20 and 0 < numbers["mean"] < 7
    assert max(read) <= 1 << 20 and sum(read) < 3 << 20


def test_preview_is_bounded(reader: Person) -> None:
    values = 150_528
    dataset = push(reader, save({"x": np.zeros((4, values), np.uint8), "y": np.zeros((4, 300_000), np.uint8)}))
    assert len(preview(reader, dataset, tensor="x", count=64)["samples"]) == 1
    cut = preview(reader, dataset, tensor="y", count=2)
    assert cut["values"] == 300_000 and list(map(len, cut["samples"])) == [looking.MOST_VALUES]
    assert len(preview(reader, dataset, tensor="x", offset=3)["samples"]) == 1
    path = f"/datasets/{dataset}/preview"
    assert_problem(reader.get(path, params={"tensor": "x", "offset": 4}), 422, 10003)
    assert_problem(reader.get(path, params={"tensor": "x", "count": 65}), 422, 1006)
    assert_problem(reader.get(path, params={"tensor": "x", "offset": 2**60}), 422, 1006)
    assert_problem(reader.get(path, params={"tensor": "z"}), 422, 10003)


def test_samples_without_numbers_and_dtypes_that_are_not_shown(reader: Person) -> None:
    dataset = push(reader, save({"x": np.zeros((3, 0, 4), np.float32), "y": np.zeros(3, np.uint8)}))
    assert preview(reader, dataset, tensor="x")["samples"] == [[], [], []]
    small = safetensors({"x": ("BOOL", (2, 4))}).replace(b'"BOOL"', b'"F8_E4M3"')
    header = small[8:-8]
    dataset = push(reader, len(header).to_bytes(8, "little") + header + small[-8:], "small")
    assert_problem(reader.get(f"/datasets/{dataset}/preview", params={"tensor": "x"}), 422, 10003)
    assert reader.get(f"/datasets/{dataset}/statistics").json() == {"tensors": []}


def test_a_thousand_tensors_are_looked_at_with_one_budget(reader: Person) -> None:
    dataset = push(reader, save({f"t{index}": np.full((2, 3), index, np.int16) for index in range(1000)}))
    found = reader.get(f"/datasets/{dataset}/statistics").json()["tensors"]
    assert len(found) == 1000
    assert all(one["mean"] == int(one["tensor"][1:]) for one in found)


def test_no_more_than_a_few_look_at_once(reader: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = reader.dataset()["id"]
    monkeypatch.setattr(looking, "_PATIENCE_SECONDS", 0.01)
    with looking._turn(), looking._turn():
        assert_problem(reader.get(f"/datasets/{dataset}/statistics"), 503, 1042)
    assert reader.get(f"/datasets/{dataset}/statistics").status_code == 200


def test_other_workspaces_see_nothing(server: Server, reader: Person) -> None:
    dataset = reader.dataset()["id"]
    other = server.person(workspace="other")
    for what in ("preview?tensor=input", "statistics", "labels", "fits"):
        assert_problem(other.get(f"/datasets/{dataset}/{what}"), 404, 1005)


def test_fits_tell_by_the_inputs_of_what_was_built(server: Server, person: Person) -> None:
    built = server.built(person)
    (artifact_input, *_) = person.get(f"/artifacts/{built['artifact_digest']}").json()["inputs"]
    good = push(person, save({artifact_input["name"]: np.zeros([4, *artifact_input["shape"][1:]], np.float32),
                              "labels": np.zeros(4, np.int64)}), "good")  # fmt: skip
    bad = push(person, save({artifact_input["name"]: np.zeros((4, 99), np.float32)}), "bad")
    (fit,) = person.get(f"/datasets/{good}/fits").json()["items"]
    assert fit["fits"] and fit["reason"] == "" and fit["build_id"] == built["id"] and fit["model_version"] == 1
    (misfit,) = person.get(f"/datasets/{bad}/fits").json()["items"]
    assert not misfit["fits"] and "the model needs" in misfit["reason"]


def test_lists_tell_the_use_and_are_sorted(server: Server, person: Person) -> None:
    built = server.built(person)
    for name, data in (("bravo", b"22"), ("alpha", b"333"), ("alpha", b"1")):
        person.model(data, name)
    models = person.get("/models").json()["items"]
    used = next(model for model in models if model["id"] == built["model_id"])
    assert used["builds"] == 1 and used["used_at"] == built["created_at"]
    assert [model["builds"] for model in models if model["id"] != built["model_id"]] == [0, 0, 0]

    def walk(sort: str) -> list[tuple[str, int]]:
        found, cursor = [], None
        while True:
            query = {"sort": sort, "limit": 1, **({"cursor": cursor} if cursor else {})}
            page = person.get("/models", params=query).json()
            found += [(model["name"], model["version"]) for model in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                return found

    versions = {(model["name"], model["version"]) for model in models}
    assert walk("name") == sorted(versions, key=lambda one: (one[0], -one[1]))
    largest = walk("largest")
    assert set(largest) == versions
    size = {(model["name"], model["version"]): model["size"] for model in models}
    assert [size[one] for one in largest] == sorted(size.values(), reverse=True)
    assert_problem(person.get("/models", params={"sort": "worst"}), 422, 1006)


def test_a_sorted_list_says_when_its_place_is_gone(person: Person) -> None:
    for name in ("a", "b", "c"):
        person.model(name.encode(), name)
    first = person.get("/models", params={"sort": "name", "limit": 1}).json()
    assert person.call("DELETE", f"/models/{first['items'][0]['id']}").status_code == 204
    query = {"sort": "name", "limit": 1, "cursor": first["next_cursor"]}
    assert_problem(person.get("/models", params=query), 422, 1013)


def test_datasets_tell_their_runs(server: Server, person: Person) -> None:
    device = server.device(person)
    run = server.run(person, device).json()
    unused = push(person, safetensors({"x": ("F32", (1, 2))}), "unused")
    assert person.get(f"/datasets/{unused}").json()["runs"] == 0
    (dataset,) = [one for one in person.get("/datasets").json()["items"] if one["id"] == run["dataset_id"]]
    assert dataset["runs"] == 1 and dataset["used_at"] == run["created_at"]
