"""Tables of peer access."""

from __future__ import annotations

import pathlib

import pytest

from placer import errors
from placer.topology import types as topo
from placer.topology.readers import merge, nvidia_smi, p2p

FIXTURE = pathlib.Path(__file__).parents[3] / "fixtures" / "topo" / "tools" / "p2p-read-4.txt"
TWO = " \tGPU0\tGPU1\t\n GPU0\tX\t{}\t\n GPU1\t{}\tX\t\n"


def read(text: str) -> topo.NodeTopology:
    return p2p.read(text, source="p2p", name="n1")


def test_read_pairs_on_two_sockets_are_denied() -> None:
    expected = (("GPU0", "GPU2"), ("GPU0", "GPU3"), ("GPU1", "GPU2"), ("GPU1", "GPU3"))
    assert read(FIXTURE.read_text()).no_peer == expected


@pytest.mark.parametrize("state", ["CNS", "GNS", "TNS", "NS", "DR"])
def test_read_one_direction_denied_is_denied(state: str) -> None:
    assert read(TWO.format("OK", state)).no_peer == (("GPU0", "GPU1"),)


@pytest.mark.parametrize(("there", "back"), [("OK", "OK"), ("U", "OK"), ("U", "U")])
def test_read_unknown_state_denies_nothing(there: str, back: str) -> None:
    node = read(TWO.format(there, back))
    assert node.no_peer == ()
    assert bool(node.warnings) == (there == "U")


def test_read_table_of_nvlink_states_denies_nothing() -> None:
    text = "$ nvidia-smi topo -p2p n\n" + TWO.format("NS", "NS")
    assert read(text).no_peer == ()
    assert "tells nothing about peer access" in read(text).warnings[0]
    assert read(text + "\n$ nvidia-smi topo -p2p w\n" + TWO.format("CNS", "CNS")).no_peer == (("GPU0", "GPU1"),)


def test_read_broken_row_counts_for_nothing() -> None:
    assert read(TWO.format("OK", "OK").replace("GPU1\tOK\tX", "GPU1\tX\tNS")).no_peer == ()


@pytest.mark.parametrize("text", ["", "GPU0\tX", TWO.format("PIX", "PIX"), TWO.format("OK", "OK") + "\tGPU0\tGPU2\n"])
def test_read_other_text_is_a_parse_error(text: str) -> None:
    with pytest.raises(errors.ParseError):
        read(text)


def test_merge_denied_pairs_join_the_matrix() -> None:
    matrix = nvidia_smi.read_matrix(TWO.format("PIX", "PIX").replace("\tX", "\t X "), source="m", name="n1")
    assert merge.merge([matrix, read(TWO.format("NS", "NS"))], name="n1").no_peer == (("GPU0", "GPU1"),)
