"""Whole processes, start to end: what a person waits for."""

from __future__ import annotations

import os
import pathlib
import stat
import subprocess
import sys

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

ROOT = pathlib.Path(__file__).parents[2]
PLACER = str(pathlib.Path(sys.executable).parent / "placer")
CLUSTER = ["--snapshot", "fixtures/slurm/24.11", "--topo-dir", "fixtures/slurm/topo"]


def run(words: list[str], environ: dict[str, str] | None = None) -> None:
    done = subprocess.run(words, cwd=ROOT, env=environ, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=60)
    assert done.returncode in (0, 3)


def benchmark_process(benchmark: BenchmarkFixture, words: list[str], environ: dict[str, str] | None = None) -> None:
    benchmark.pedantic(run, args=(words, environ), rounds=9, warmup_rounds=1)  # type: ignore[no-untyped-call]


def test_process_python_alone(benchmark: BenchmarkFixture) -> None:
    benchmark_process(benchmark, [sys.executable, "-c", "pass"])


def test_process_help(benchmark: BenchmarkFixture) -> None:
    benchmark_process(benchmark, [PLACER, "--help"])


def test_process_place_shipped_cluster(benchmark: BenchmarkFixture) -> None:
    benchmark_process(benchmark, [PLACER, "place", "fixtures/jobs/train.sbatch", *CLUSTER])


@pytest.fixture
def plain_sbatch(tmp_path: pathlib.Path) -> dict[str, str]:
    """An sbatch that answers at once, first on PATH, so that what is measured is the wrapper's own time."""
    program = tmp_path / "sbatch"
    program.write_text("#!/bin/sh\necho Submitted batch job 1\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    config = tmp_path / "config.yaml"
    config.write_text("topo_dir: fixtures/slurm/topo\n")
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PLACER_CONFIG": str(config)}


def test_process_sbatch_plain(benchmark: BenchmarkFixture, plain_sbatch: dict[str, str]) -> None:
    benchmark_process(benchmark, ["sbatch", "fixtures/jobs/train.sbatch"], plain_sbatch)


def test_process_sbatch_wrapped(benchmark: BenchmarkFixture, plain_sbatch: dict[str, str]) -> None:
    words = [PLACER, "sbatch", "--placer-snapshot", "fixtures/slurm/24.11", "fixtures/jobs/train.sbatch"]
    benchmark_process(benchmark, words, plain_sbatch)
