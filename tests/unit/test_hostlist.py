"""Node lists. Expected values are what `scontrol show hostnames` and `hostlist` of 22.05 print, or set by hand."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from placer import errors, hostlist

# text -> what `scontrol show hostnames TEXT` of Slurm 22.05.8 prints (repeats dropped)
SLURM_HOSTNAMES = {
    "a[1-3,5]b[01-02]": "a1b01 a1b02 a2b01 a2b02 a3b01 a3b02 a5b01 a5b02",
    "a[08-10]": "a08 a09 a10",
    "a1,a1,a2": "a1 a2",
    "a[001-3]": "a001 a002 a003",
    "a[1-010]": "a1 a2 a3 a4 a5 a6 a7 a8 a9 a10",
    "a[1-2][3-4]": "a13 a14 a23 a24",
    " a, b": "a b",
    "a b": "a b",
    "": "",
    ",": "",
    "a,,b": "a b",
    "[1-3]": "1 2 3",
    "a[9-11]": "a9 a10 a11",
    "a[1-2]b3n[1-2]": "a1b3n1 a1b3n2 a2b3n1 a2b3n2",
    "a[1-2,01-02]": "a1 a2 a01 a02",
    "a1[1-2]": "a11 a12",
    "rack[1-2]n[01-04]": "rack1n01 rack1n02 rack1n03 rack1n04 rack2n01 rack2n02 rack2n03 rack2n04",
}

# names -> what `scontrol show hostlist` of 22.05.8 prints for them in sorted order
SLURM_FOLDED = {
    "a3,a1,a2": "a[1-3]",
    "a9,a10,a11": "a[9-11]",
    "a09,a10,a11": "a[09-11]",
    "a01,a1,a2,a02": "a[1-2,01-02]",
    "a1,a3,a5,a7": "a[1,3,5,7]",
    "1,2,3": "[1-3]",
    "a08,a09,a10,a99,a100,a101": "a[08-10,99-101]",
    "b,a,a3": "a,a3,b",
    "n1p,n2p": "n1p,n2p",
    "a1-x,a2-x": "a1-x,a2-x",
    "r1n1,r2n1": "r1n1,r2n1",
    "x1y1,x1y2,x2y1": "x1y[1-2],x2y1",
}


@pytest.mark.parametrize(("text", "names"), SLURM_HOSTNAMES.items())
def test_expand_as_slurm_does(text: str, names: str) -> None:
    assert hostlist.expand(text) == tuple(names.split())


@pytest.mark.parametrize(("names", "text"), SLURM_FOLDED.items())
def test_fold_as_slurm_does(names: str, text: str) -> None:
    assert hostlist.fold(names.split(",")) == text


def test_expand_null_is_the_empty_list() -> None:
    assert hostlist.expand("(null)") == ()


def test_expand_text_after_a_bracket_is_kept() -> None:
    assert hostlist.expand("n[1-2].lan") == ("n1.lan", "n2.lan")


def test_expand_newline_between_entries_separates() -> None:
    assert hostlist.expand("a1\n\tb1\r\n") == ("a1", "b1")


@pytest.mark.parametrize(
    ("text", "line", "column", "word"),
    [
        ("a[1", 1, 2, "not closed"),
        ("x,a]", 1, 4, "without"),
        ("a[[1]]", 1, 2, "nested"),
        ("a[1-2[3]]", 1, 2, "nested"),
        ("a[]", 1, 3, "not a number"),
        ("a[1,]", 1, 5, "not a number"),
        ("a[1-]", 1, 3, "not a number"),
        ("a[-1]", 1, 3, "not a number"),
        ("a[x]", 1, 3, "not a number"),
        ("a[٣]", 1, 3, "not a number"),  # an Arabic digit is no digit of a node list
        ("a[0-10:2]", 1, 3, "not a number"),
        ("a[0-10/2]", 1, 3, "not a number"),
        ("a[5,3-1]", 1, 5, "ascend"),
        ("a1\nb[x]", 2, 3, "not a number"),
        ("switch{leaf1}", 1, 7, "Slurm itself"),
        ("a\x1b[31m", 1, 2, "printed"),
        ("a\u202eb", 1, 2, "printed"),
        ("a[0-9999999999999999999]", 1, 3, "not a number"),
    ],
)
def test_expand_broken_text_tells_where(text: str, line: int, column: int, word: str) -> None:
    with pytest.raises(errors.ParseError, match=word) as caught:
        hostlist.expand(text, source="list")
    assert (caught.value.source, caught.value.line, caught.value.column) == ("list", line, column)


@pytest.mark.parametrize(
    "text",
    [
        "a[0-999999999]",
        "a[0-999999999999999999]",
        "a[0-999][0-999][0-999][0-999]",
        "a[0-99999],b",
        "b,a[0-99999]",
        "a[0-60000],b[0-60000]",
        "a[" + ",".join(["0-99999"] * 1000) + "]",
        "a[0-99]" * 1000,
    ],
)
def test_expand_above_the_limit_is_refused(text: str) -> None:
    with pytest.raises(errors.ParseError, match="more than 100000 nodes"):
        hostlist.expand(text)


def test_expand_exactly_the_limit_is_read() -> None:
    assert len(hostlist.expand("a[0-9]", limit=10)) == 10
    assert len(hostlist.expand("a,b,c", limit=3)) == 3


@pytest.mark.parametrize("text", ["a,b,c", "a[1-2],c", "a,b,c[1]"])
def test_expand_one_above_a_given_limit_is_refused(text: str) -> None:
    with pytest.raises(errors.ParseError, match="more than 2 nodes"):
        hostlist.expand(text, limit=2)


def test_fold_full_racks_multiplies() -> None:
    names = [f"rack{r}n{n:02}" for r in range(1, 4) for n in range(1, 17)]
    assert hostlist.fold(names) == "rack[1-3]n[01-16]"


def test_fold_three_numbers_multiplies_all() -> None:
    names = [f"x{a}y{b}z{c}" for a in (1, 2) for b in (1, 2) for c in (7, 8)]
    assert hostlist.fold(names) == "x[1-2]y[1-2]z[7-8]"


def test_fold_unlike_rack_stays_apart() -> None:
    names = ["r1n1", "r1n2", "r2n1", "r2n2", "r3n1", "r3n3"]
    assert hostlist.fold(names) == "r[1-2]n[1-2],r3n[1,3]"


def test_fold_of_nothing_is_empty() -> None:
    assert hostlist.fold([]) == ""


def test_fold_digits_beyond_counting_stay_a_name() -> None:
    assert hostlist.fold(["n" + "9" * 5000, "n1"]) == "n1,n" + "9" * 5000


def test_fold_ten_thousand_nodes_is_one_bracket() -> None:
    names = tuple(f"gpu{n:05}" for n in range(10_000))
    assert hostlist.fold(reversed(names)) == "gpu[00000-09999]"
    assert hostlist.expand("gpu[00000-09999]") == names


@pytest.mark.parametrize(
    "ordered",
    [
        ["gpu", "gpu1", "gpu2", "gpu10", "gpu100"],
        ["rack1n9", "rack1n10", "rack2n1", "rack10n1"],
        ["a01", "a1", "a02", "a2"],
        ["n9", "n" + "1" * 5000],
        ["", "0", "1", "a", "b"],
    ],
)
def test_sort_is_natural(ordered: list[str]) -> None:
    assert hostlist.sort(reversed(ordered)) == tuple(ordered)


def test_sort_keeps_repeats() -> None:
    assert hostlist.sort(["b", "a", "b"]) == ("a", "b", "b")


@pytest.fixture(scope="module")
def slurm_conf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("scontrol") is None:
        pytest.skip("no scontrol on PATH: apt-get install slurm-client")
    conf = tmp_path_factory.mktemp("slurm") / "slurm.conf"
    conf.write_text("ClusterName=t\nSlurmctldHost=localhost\nNodeName=x[1-2] CPUs=1\nPartitionName=p Nodes=ALL\n")
    probe = subprocess.run(
        ["scontrol", "show", "hostnames", "a1"], env=_environment(conf), capture_output=True, text=True
    )
    if probe.stdout != "a1\n":
        pytest.skip(f"scontrol does not answer here: {probe.stderr.strip()[:80]}")
    return conf


def _environment(conf: Path) -> dict[str, str]:
    return {"SLURM_CONF": str(conf), "PATH": os.environ["PATH"]}


def _scontrol(conf: Path, what: str, text: str) -> str:
    done = subprocess.run(
        ["scontrol", "show", what, text],
        env=_environment(conf),
        capture_output=True,
        text=True,
    )
    assert not done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("text", [t for t in SLURM_HOSTNAMES if t.strip(",")])
def test_expand_equals_installed_scontrol(slurm_conf: Path, text: str) -> None:
    printed = _scontrol(slurm_conf, "hostnames", text).split()
    assert hostlist.expand(text) == tuple(dict.fromkeys(printed))


def test_fold_is_read_back_by_installed_scontrol(slurm_conf: Path) -> None:
    names = [f"rack{r}n{n:02}" for r in range(9, 12) for n in range(1, 4)]
    names += ["login", "n1p", "n2p", "a1", "a01", "a2", "a02", "a10", "x1y1", "x2y1", "x10y9", "x10y10", "7", "8"]
    printed = _scontrol(slurm_conf, "hostnames", hostlist.fold(names)).split()
    assert sorted(printed) == sorted(names)
