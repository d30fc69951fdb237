"""Snapshot files: what is read, what is refused and how that is said, and that writing never harms what was there."""

from __future__ import annotations

import gzip
import json
import os
import pathlib
import stat

import pytest
import yaml

from placer import errors
from placer.cluster import types
from placer.files import _atomic, _yaml, snapshots

WRITTEN = """\
apiVersion: placer/v1
kind: ClusterSnapshot
source: {system: manual, version: "", taken: 2026-01-31T12:00:00Z}
levels: [leaf, spine]                 # closest first
nodes:
- name: gpu[01-06]                    # a list makes equal nodes
  gpus: {count: 8, type: a100}
  cpus: 128
  memory: 1000G
  domains: {leaf: leaf1, spine: s1}
  features: [no, on, 007]
jobs:
- id: 7
  state: running
  time_limit: 1:00:00
  allocations:
  - {node: gpu01, gpus: [0, 1, 2, 3], cpus: 32, memory: 100G}
"""


@pytest.fixture
def snapshot(tmp_path: pathlib.Path) -> types.ClusterSnapshot:
    return snapshots.read(_file(tmp_path, WRITTEN))


def _file(folder: pathlib.Path, content: str | bytes, name: str = "s.yaml") -> pathlib.Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_read_written_yaml(snapshot: types.ClusterSnapshot) -> None:
    assert [node.name for node in snapshot.nodes] == [f"gpu0{n}" for n in range(1, 7)]
    assert snapshot.nodes[0].memory_mib == 1_024_000
    assert snapshot.nodes[0].features == ("no", "on", "007")  # text in YAML 1.2, unlike in 1.1
    assert snapshot.source.taken == 1_769_860_800
    assert (snapshot.jobs[0].id, snapshot.jobs[0].time_limit) == ("7", 3600)
    assert snapshot.jobs[0].allocations[0].gpus == (0, 1, 2, 3)


@pytest.mark.parametrize("name", ["s.json", "s.yaml", "s.txt"])
@pytest.mark.parametrize("zipped", [False, True])
def test_read_tells_json_and_gzip_by_content(
    tmp_path: pathlib.Path, snapshot: types.ClusterSnapshot, name: str, zipped: bool
) -> None:
    data = snapshots.to_json(snapshot)
    assert snapshots.read(_file(tmp_path, gzip.compress(data) if zipped else data, name)) == snapshot


@pytest.mark.parametrize("name", ["s.yaml", "s.yml", "s.json", "s", "s.yaml.gz", "s.json.gz"])
def test_write_form_follows_the_suffix(tmp_path: pathlib.Path, snapshot: types.ClusterSnapshot, name: str) -> None:
    path = tmp_path / name
    snapshots.write(path, snapshot)
    data = path.read_bytes()
    if name.endswith(".gz"):
        data = gzip.decompress(data)
    other = json.loads(data) if ".json" in name else yaml.safe_load(data)  # other readers understand it as well
    assert other["nodes"][0]["name"] == "gpu[01-06]"
    assert other["nodes"][0]["features"] == ["no", "on", "007"]
    assert snapshots.read(path) == snapshot


def test_write_same_snapshot_is_byte_equal(tmp_path: pathlib.Path, snapshot: types.ClusterSnapshot) -> None:
    for name in ("a.json.gz", "b.json.gz"):
        snapshots.write(tmp_path / name, snapshot)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_read_topology_file_is_relative_to_the_document(tmp_path: pathlib.Path) -> None:
    (tmp_path / "topo").mkdir()
    matrix = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV12\t0-7\nGPU1\tNV12\t X \t0-7\n"
    (tmp_path / "topo" / "n.txt").write_text(matrix)
    document = "apiVersion: placer/v1\nkind: ClusterSnapshot\nnodes: [{name: n, topology_file: topo/n.txt}]\n"
    (machine,) = snapshots.read(_file(tmp_path, document)).topology.machines
    assert [link.label for link in machine.links] == ["NV12"]


@pytest.mark.parametrize(
    ("content", "line", "column", "words"),
    [
        ("apiVersion: placer/v1\nkind: [", 3, 1, "broken YAML"),
        ("a: 1\nb:\n  c: 1\n  c: 2\n", 4, 3, "key `c` stands twice"),
        ("a: 1\n--- \nb: 2\n", 2, 1, "more than one document"),
        ("a:\n\t- b", 2, 1, "broken YAML"),
        ("x: !!python/object/apply:os.system [ls]", 1, 4, "tag `tag:yaml.org,2002:python/object/apply:os.system`"),
        ("x: &a [*a]", 1, 8, "alias `*a` stands before its anchor is complete"),
        ("x: *b", 1, 4, "alias `*b`"),
        ("? [1]\n: 2", 1, 3, "a key must be text"),
        ("[" * 101, 1, 1, "broken JSON"),
        ("- " * 101, 1, 201, "nested more than 100 deep"),
        ("ab\nc\x00", 2, 2, "control characters"),
        (b"a: \xff", 1, 4, "not UTF-8 text"),
        ('{"a":\n  x}', 2, 3, "broken JSON"),
        ('{"a": [1, 2', 1, 12, "broken JSON: Input data was truncated"),
        ("[" * 100_000, 1, 1, "nested too deep"),
    ],
)
def test_read_broken_text_tells_where(
    tmp_path: pathlib.Path, content: str | bytes, line: int, column: int, words: str
) -> None:
    path = _file(tmp_path, content)
    with pytest.raises(errors.ParseError) as caught:
        snapshots.read(path)
    assert words in caught.value.message
    if content != "[" * 101:
        assert (caught.value.source, caught.value.line, caught.value.column) == (str(path), line, column)


def test_read_billion_laughs_is_refused_before_it_unfolds(tmp_path: pathlib.Path) -> None:
    rows = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)]
    with pytest.raises(errors.ParseError, match="more than 10000000 values"):
        snapshots.read(_file(tmp_path, "\n".join(rows)))


def test_read_merge_key_takes_the_anchors_keys(tmp_path: pathlib.Path) -> None:
    header = "apiVersion: placer/v1\nkind: ClusterSnapshot\n"
    document = header + "nodes:\n- &n {name: a, cpus: 4, state: down}\n- {<<: *n, name: b, cpus: 8}\n"
    nodes = snapshots.read(_file(tmp_path, document)).nodes
    assert [(n.name, n.cpus, n.condition.value) for n in nodes] == [("a", 4, "down"), ("b", 8, "down")]


def test_read_empty_file_is_a_document_error(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.DocumentError, match="must be a mapping"):
        snapshots.read(_file(tmp_path, ""))


def test_read_wrong_value_names_file_and_path(tmp_path: pathlib.Path) -> None:
    path = _file(tmp_path, WRITTEN.replace("count: 8", "count: eight"))
    with pytest.raises(errors.DocumentError, match=r"nodes\[0\].gpus.count") as caught:
        snapshots.read(path)
    assert caught.value.source == str(path)


def test_read_missing_file_has_a_hint(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.InputError, match="there is no file") as caught:
        snapshots.read(tmp_path / "none.yaml")
    assert caught.value.hint == f"ls {tmp_path}"


def test_read_directory_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.InputError, match="is a directory"):
        snapshots.read(tmp_path)


def test_read_name_with_nul_is_refused() -> None:
    with pytest.raises(errors.InputError, match="cannot read"):
        snapshots.read("a\0b")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_read_unreadable_file_has_a_hint(tmp_path: pathlib.Path) -> None:
    path = _file(tmp_path, WRITTEN)
    path.chmod(0)
    with pytest.raises(errors.InputError, match="Permission denied") as caught:
        snapshots.read(path)
    assert caught.value.hint == f"ls -l {path}"


def test_read_cut_gzip_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.InputError, match="not a whole gzip file"):
        snapshots.read(_file(tmp_path, gzip.compress(WRITTEN.encode())[:-9]))


@pytest.mark.parametrize("zipped", [False, True])
def test_read_above_the_limit_says_the_limit(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, zipped: bool
) -> None:
    monkeypatch.setattr(snapshots, "MAX_BYTES", 1 << 20)
    data = b" " * ((1 << 20) + 1)
    with pytest.raises(errors.InputError, match="larger than 1 MiB"):
        snapshots.read(_file(tmp_path, gzip.compress(data) if zipped else data))


def test_limit_is_256_mib() -> None:
    assert snapshots.MAX_BYTES == 256 * 1024 * 1024


# --- writing


def test_write_mode_is_0644_less_the_umask(tmp_path: pathlib.Path, snapshot: types.ClusterSnapshot) -> None:
    before = os.umask(0o027)
    try:
        snapshots.write(tmp_path / "s.json", snapshot)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "s.json").stat().st_mode) == 0o640


def test_write_failing_half_way_keeps_the_old_file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _file(tmp_path, "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(errors.InputError, match="No space left on device"):
        _atomic.write_bytes(path, b"new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["s.yaml"]


def test_write_on_a_full_disk_says_so(snapshot: types.ClusterSnapshot) -> None:
    if not pathlib.Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with pytest.raises(errors.InputError, match="No space left on device"):
        snapshots.write("/dev/full", snapshot)


def test_write_through_a_symlink_keeps_the_link(tmp_path: pathlib.Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    _atomic.write_bytes(link, b"x")
    assert (link.is_symlink(), target.read_bytes()) == (True, b"x")


def test_write_into_no_folder_or_onto_one_is_refused(tmp_path: pathlib.Path, snapshot: types.ClusterSnapshot) -> None:
    for path in (tmp_path / "none" / "s.json", tmp_path):
        with pytest.raises(errors.InputError, match="cannot write"):
            snapshots.write(path, snapshot)


# --- YAML itself


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[~, null, Null, '']", [None, None, None, ""]),
        ("a:", {"a": None}),
        ("[true, False, yes, Off, y]", [True, False, "yes", "Off", "y"]),
        ("[1, -2, +3, 0, 007, 0x1f, 1_000, 12:30:00]", [1, -2, 3, 0, "007", "0x1f", "1_000", "12:30:00"]),
        ("[1.5, .5, 1e3, -2.5e-1, 1., .inf, .nan, 1.2.3]", [1.5, 0.5, 1000.0, -0.25, 1.0, ".inf", ".nan", "1.2.3"]),
        ("[2026-01-31, 2026-01-31T12:00:00Z]", ["2026-01-31", "2026-01-31T12:00:00Z"]),
        ("['1', \"2\", !!str 3]", ["1", "2", "3"]),
        ("{1: a, true: b}", {"1": "a", "true": "b"}),
        ("99999999999999999999", "99999999999999999999"),
        ("", None),
        ("&k a: 1\nb: *k", {"a": 1, "b": "a"}),
    ],
)
def test_yaml_plain_words_are_of_the_core_schema(text: str, value: object) -> None:
    assert _yaml.load(text, source="x") == value


def test_yaml_dump_is_read_equally_by_pyyaml() -> None:
    document = {
        "words": [
            "no",
            "y",
            "null",
            "1",
            "007",
            "1e3",
            "12:30:00",
            "2026-01-31",
            "a: b",
            "#x",
            " a",
            "a ",
            "",
            "-",
            "?",
            "é",
            "\x07",
        ],
        "nested": {"a": {"b": [], "c": {}}, "d": [1, 1.5, True, None]},
    }
    assert yaml.safe_load(_yaml.dump(document)) == document
