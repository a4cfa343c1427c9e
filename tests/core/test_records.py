from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from agent_r1_core import Record, RecordsConfig, TaskError, read_records, stream_records, text_field
from agent_r1_core.records.files import _read_parquet

RECORDS = [{"question": "Où?", "n": 1}, {"question": "Who?", "n": 2}]


def write(path: Path, records: list[Any]) -> Path:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(write(path.with_suffix(""), records).read_bytes()))
    elif path.suffix == ".json":
        path.write_text(json.dumps(records), encoding="utf-8")
    elif path.suffix == ".jsonl":
        path.write_text("\n\n".join(json.dumps(record) for record in records), encoding="utf-8")
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), path)
    return path


def test_a_folder_is_read_as_the_hub_lays_data_sets_out(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder / "train-00000-of-00001.parquet", RECORDS)
    write(folder / "validation-00000-of-00001.parquet", RECORDS[:1])
    assert read_records(folder, hub="", split="validation") == RECORDS[:1]
    with pytest.raises(TaskError, match="split nonsense"):
        read_records(folder, hub="", split="nonsense")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("data.json", b'{"question": "?"}', "holds one JSON object, not a list"),
        ("data.json", b'[{"question": ', "is not JSON at line 1"),
        ("data.jsonl", b'{"a": 1}\n{"a": ', "line 2 of .* is not JSON"),
        ("data.jsonl", b"\n\n", "holds no record"),
        ("data.jsonl", b'{"a": "\xff"}', "is not UTF-8 text at byte 7"),
        ("data.jsonl", b"1\n" + b"[" * 100_000, "line 2 of .* is nested too deeply; repair or remove it"),
        ("data.jsonl", b"9" * 10_000, "line 1 of .* holds a number with too many digits; repair or remove it"),
        ("data.json", b"[" * 100_000, "data.json is nested too deeply; repair or fetch it again"),
        ("data.parquet", b"PAR0", "is not a readable Parquet file"),
        ("data.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 99, mtime=0)[:-12], r"data.jsonl.gz is damaged or cut off"),
        ("data.json", b'{"a": 1}\n{"a": ', "line 2 of .* is not JSON"),
        ("data.tsv", b"a,b", "is not one of .json, .jsonl, .jsonl.gz, .parquet, .csv"),
        ("data.csv", b"a,b\n1,\xff", "is not UTF-8 text at byte 6"),
    ],
)
def test_a_broken_file_gives_one_sentence(tmp_path, name, content, sentence):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TaskError, match=sentence):
        read_records(tmp_path / name, hub="")


@pytest.mark.parametrize("name", ["data.jsonl", "data.jsonl.gz", "data.csv"])
def test_a_line_beyond_the_bound_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.setattr("agent_r1_core.records.files.DOCUMENT", 2**20)
    content = b'"a"\n"' + b"x" * 2**20 + b'"\n'
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    sentence = re.escape(f"line 2 of {tmp_path / name} is longer than 1,048,576 bytes; give one record on a line")
    with pytest.raises(TaskError, match=sentence):
        read_records(tmp_path / name, hub="")


@pytest.mark.parametrize(
    ("name", "places"),
    [
        *((name, ["line 1", "line 3"]) for name in ("data.jsonl", "data.jsonl.gz")),
        *((name, ["record 1", "record 2"]) for name in ("data.json", "data.parquet")),
        ("data.csv", ["line 2", "line 5"]),
    ],
)
def test_the_place_of_a_record_is_its_line_or_its_number_from_1(tmp_path, name, places):
    path = tmp_path / name
    if path.suffix == ".csv":
        path.write_text('question,n\n"Who,\nelse?",1\n\nWho?,2\n')
    else:
        write(path, RECORDS)
    expected = [f"{place} of {path}" for place in places]
    assert [place for place, _ in stream_records(path)] == expected
    assert [record.where for record in RecordsConfig(path=str(path)).read()] == expected
    if path.suffix != ".csv":
        assert read_records(path, hub="") == RECORDS
    with pytest.raises(TaskError, match=r"no data set at .*absent\.json"):
        read_records(tmp_path / "absent.json", hub="")


def test_a_hub_that_does_not_answer_is_asked_once_and_its_cache_is_read(tmp_path, monkeypatch):
    datasets, hub = pytest.importorskip("datasets"), pytest.importorskip("huggingface_hub")
    for module in (datasets.config, hub.constants):
        monkeypatch.setattr(module, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub.constants, "ENDPOINT", "http://127.0.0.1:9")  # nothing listens on the discard port
    monkeypatch.setattr(datasets.config, "HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail("it was tried again"))
    with pytest.raises(TaskError, match=r"the hub does not answer: .*set `path` to a local file"):
        read_records(None, hub="nobody/facts")
    folder = tmp_path / "facts"
    folder.mkdir()
    write(folder / "train.jsonl", RECORDS)
    datasets.load_dataset(str(folder))
    (tmp_path / "cache" / "facts").rename(tmp_path / "cache" / "nobody___facts")
    assert read_records(None, hub="nobody/facts") == RECORDS
    assert not hub.constants.HF_HUB_OFFLINE


def test_the_hub_without_its_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(TaskError, match=r"agent-r1\[hub\]"):
        read_records(None, hub="some/data")


def test_size_offset_and_a_random_sample_choose_places_are_named_and_a_path_is_kept_absolute(tmp_path, monkeypatch):
    path = str(write(tmp_path / "data.json", [*RECORDS, {"n": 3}]))
    assert RecordsConfig(path=path, offset=1, size=1).read() == [Record(1, f"record 2 of {path}", RECORDS[1])]
    assert [record.content["n"] for record in RecordsConfig(path=path, offset=1).read()] == [2, 3]
    for config in (RecordsConfig(path=path, size=4), RecordsConfig(path=path, offset=3)):
        with pytest.raises(TaskError, match="holds 3 records but"):
            config.read()

    path = str(write(tmp_path / "data.json", [{"n": n} for n in range(100)]))

    def drawn(seed: int, **options: int) -> list[int]:
        config = RecordsConfig(path=path, size=10, sample="random", seed=seed, **options)
        records = config.read(lambda record: record.content["n"] % 2 == 0)
        assert all(record.index == record.content["n"] for record in records), "a place is that in the file"
        return [record.content["n"] for record in records]

    assert drawn(0) == drawn(0) == sorted(set(drawn(0)))
    assert len(drawn(0)) == 10
    assert drawn(0) != drawn(1)
    assert drawn(0) != list(range(0, 20, 2))
    assert all(n % 2 == 0 for n in drawn(0))
    assert min(drawn(0, offset=40)) >= 80, "the offset counts usable records, as the size does"
    with pytest.raises(TaskError, match="holds 50 records but offset=41 and size=10 was asked for"):
        drawn(0, offset=41)

    write(tmp_path / "data.json", RECORDS)
    monkeypatch.chdir(tmp_path)
    config = RecordsConfig(path="data.json")
    monkeypatch.chdir("/")
    assert [record.content for record in config.read()] == RECORDS


def test_options_of_the_hub_are_idle_beside_a_path_and_a_seed_without_a_draw():
    draw = {"sample", "seed"}
    assert set(RecordsConfig().idle()) == draw
    assert set(RecordsConfig(size=3).idle()) == {"seed"}
    assert RecordsConfig(size=3, sample="random").idle() == {}
    assert set(RecordsConfig(path="data.json").idle()) == {"hub", "subset", "split", *draw}
    assert set(RecordsConfig(path="folder").idle()) == {"hub", "subset", *draw}


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ({"question": " "}, "record 7 has an empty 'question'; fill it in, or leave the record out"),
        ({"question": 3}, "record 7 has no text under 'question' (what stands there is of type int); give a file"),
        ({"text": ""}, "record 7 has no text under 'question' (it has keys ['text']); give a file"),
        ("text", "record 7 has no text under 'question' (the record is a str, not an object with keys); give a file"),
    ],
)
def test_a_record_without_the_text_is_named(record, sentence):
    with pytest.raises(TaskError, match=re.escape(sentence)):
        text_field(record, "question", "record 7")


def test_a_character_that_nothing_can_encode_is_replaced():
    assert text_field({"question": " half \ud83d a pair"}, "question", "record 7") == "half ? a pair"


def test_short_floats_of_a_parquet_file_are_the_numbers_that_were_meant(tmp_path: Path) -> None:
    path = tmp_path / "short.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"f": pyarrow.array([0.1, None, 2.5], pyarrow.float32())}), path)
    assert [record["f"] for _, record in _read_parquet(path)] == [0.1, None, 2.5]
