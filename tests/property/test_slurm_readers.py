"""Whatever Slurm's output turned into on its way: a snapshot or a PlacerError, nothing else."""

from __future__ import annotations

import functools
import pathlib

from hypothesis import given, settings
from hypothesis import strategies as st

from placer import errors, ranges
from placer.cluster import recording as recordings
from placer.cluster import types as cluster
from placer.slurm import gres, gres_conf, parse_json, parse_text, snapshot

FIXTURES = pathlib.Path(__file__).parents[2] / "fixtures" / "slurm"
JSON_FILES = (
    ("22.05", "squeue_json.txt"),
    ("22.05", "sinfo_json.txt"),
    ("26.05", "scontrol_show_jobs_json.txt"),
    ("26.05", "scontrol_show_nodes_json.txt"),
    ("26.05", "scontrol_show_partitions_json.txt"),
)
TEXT_FILES = tuple(
    (release, name)
    for release in ("22.05", "26.05")
    for name in (
        "scontrol_show_job_d.txt",
        "scontrol_show_node_d.txt",
        "scontrol_show_partition.txt",
        "scontrol_show_config.txt",
        "scontrol_show_topology.txt",
        "gres.conf",
    )
)
NASTY = st.sampled_from(
    ["", "=", ",", "-", "[", "]", "(", ")", "\n", "\x00", "é", "999999999999999999999", "-1", "null", "{", '"', "IDX:",
     "N/A", "(null)", "gpu:a100:99999999(IDX:0-99999999)", "n[1-99999999]", "1e400", "\ud800", "K", "UNLIMITED"]
)  # fmt: skip


@functools.cache
def entries(release: str) -> tuple[tuple[str, str], ...]:
    return tuple((file.name, file.read_text()) for file in sorted((FIXTURES / release).iterdir()))


def check_build_with(release: str, name: str, text: str, *, only_form: bool) -> cluster.ClusterSnapshot | None:
    """The snapshot of a recording in which one file reads `text`; None after a PlacerError."""
    dropped = ("node_d", "job_d", "show_partition.") if "json" in name else ("json",)
    kept = [
        (key, text if key == name else value)
        for key, value in entries(release)
        if key == name or not (only_form and any(part in key for part in dropped))
    ]
    try:
        return snapshot.build(recordings.Recording(release, tuple(kept)))
    except errors.PlacerError:
        return None


@given(st.sampled_from(JSON_FILES), st.floats(0, 1), st.booleans())
@settings(max_examples=60, deadline=None)
def test_build_of_json_cut_anywhere_is_error_or_falls_back(
    file: tuple[str, str], where: float, only_form: bool
) -> None:
    release, name = file
    text = dict(entries(release))[name].rstrip()
    made = check_build_with(release, name, text[: int(where * (len(text) - 1))], only_form=only_form)
    if only_form:
        assert made is None
    elif "sinfo" in name or "squeue" in name or "jobs" in name or "nodes" in name or "partitions" in name:
        assert made is not None
        assert any(name in text for text in made.left_out)
        assert (len(made.nodes), len(made.jobs), len(made.partitions)) == (8, 20, 2)


@given(
    st.sampled_from(JSON_FILES + TEXT_FILES),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), NASTY), max_size=8),
)
@settings(max_examples=120, deadline=None)
def test_build_of_mutated_output_is_snapshot_or_placer_error(
    file: tuple[str, str], edits: list[tuple[float, int, str]]
) -> None:
    release, name = file
    text = dict(entries(release))[name]
    for where, length, insert in edits:
        at = int(where * len(text))
        text = text[:at] + insert + text[at + length :]
    made = check_build_with(release, name, text, only_form=True)
    if made is not None:
        names = {node.name for node in made.nodes}
        indices = {node.name: {slot.index for slot in node.gpus} for node in made.nodes}
        for job in made.jobs:
            for allocation in job.allocations:
                assert allocation.node in names
                assert set(allocation.gpus or ()) <= indices[allocation.node]


@given(st.sampled_from(TEXT_FILES), st.integers(0, 2**32), st.sampled_from(["drop", "repeat", "swap"]))
@settings(max_examples=60, deadline=None)
def test_build_of_shuffled_lines_is_snapshot_or_placer_error(file: tuple[str, str], where: int, how: str) -> None:
    release, name = file
    lines = dict(entries(release))[name].split("\n")
    at = where % max(1, len(lines) - 1)
    if how == "drop":
        del lines[at]
    elif how == "repeat":
        lines.insert(at, lines[at])
    else:
        lines[at], lines[at + 1] = lines[at + 1], lines[at]
    check_build_with(release, name, "\n".join(lines), only_form=True)


KINDS = st.sampled_from([None, "a100", "v100", "h100-80gb"])


@given(st.lists(st.tuples(KINDS, st.sets(st.integers(0, 63), max_size=8)), max_size=4))
def test_parse_reads_back_what_slurm_would_print(entries: list[tuple[str | None, set[int]]]) -> None:
    text = ",".join(
        f"gpu{':' + kind if kind else ''}:{len(held)}(IDX:{ranges.format(held) or 'N/A'})" for kind, held in entries
    )
    made = gres.parse(text)
    assert [(one.type, set(one.indices or ()), one.count) for one in made] == [
        (kind, held, len(held)) for kind, held in entries
    ]


@given(st.text(max_size=200))
@settings(max_examples=150)
def test_readers_of_any_text_raise_parse_error_alone(text: str) -> None:
    for reader in (
        lambda: gres.parse(text),
        lambda: gres.ask(text),
        lambda: gres_conf.read(text, source="s"),
        lambda: parse_text.nodes(f"NodeName={text}", source="s"),
        lambda: parse_json.nodes(text, source="s"),
        lambda: parse_text.config(text),
    ):
        try:
            reader()
        except errors.ParseError as error:
            broken = error
        else:
            continue
        assert str(broken).isprintable()
