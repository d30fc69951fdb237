from __future__ import annotations

import subprocess
import sys

import pytest

from placer import errors
from placer.cli import _render, main


def placer(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "placer", *words], capture_output=True, text=True, timeout=60)


def test_version_is_that_of_the_package() -> None:
    import placer as package

    done = placer("--version")
    assert (done.returncode, done.stdout.split()[-1]) == (0, package.__version__)


@pytest.mark.parametrize(
    "words", [("nosuchverb",), ("--nosuchoption",), ("place", "--nodes", "many"), ("topo", "--output", "x")]
)
def test_usage_errors_exit_2_with_one_error_line_and_a_hint(words: tuple[str, ...]) -> None:
    done = placer(*words)
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert lines[0].startswith("error: ")
    assert lines[-1].startswith("hint: ")
    assert "Traceback" not in done.stderr


def test_help_imports_no_heavy_package() -> None:
    code = (
        "import sys\n"
        "from placer.cli import main\n"
        "main.invoke(['--help'])\n"
        "print(sorted(m for m in ('numpy', 'networkx', 'pulp', 'highspy', 'rich', 'yaml')"
        " if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InputError("x"), 1),
        (errors.UsageError("x"), 2),
        (errors.CommandMissingError("x"), 4),
        (errors.StaleError("x"), 5),
        (ZeroDivisionError("x"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_invoke_gives_each_failure_its_exit_code(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_arguments: object) -> None:
        raise error

    monkeypatch.setattr(main.cli, "main", fail)
    assert main.invoke([]) == code
    assert "Traceback" not in capsys.readouterr().err


def test_complain_without_a_terminal_has_no_colour(capsys: pytest.CaptureFixture[str]) -> None:
    main.complain("broken", "mend it", 1)
    assert capsys.readouterr().err == "error: broken\n\nhint: mend it\n"


@pytest.mark.parametrize(
    ("shell", "code"),
    [
        ("{placer} --help >/dev/full", 1),
        ("{placer} place - <&-", 1),
        ("{placer} place x --snapshot /nonexistent 2>&-", 1),
        ("PATH= {placer} place --nodes 1 --from slurm 2>&-", 4),
        ("PATH= {placer} place --nodes 1 --from slurm 2>/dev/full", 4),
        ("{placer} --nosuchoption 2>&-", 2),
    ],
)
def test_streams_that_are_closed_or_full_keep_the_exit_code_and_print_no_traceback(shell: str, code: int) -> None:
    command = shell.format(placer=f"{sys.executable} -m placer")
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (code, "")
    assert "Traceback" not in done.stderr
    assert "own account" not in done.stderr


def test_output_for_people_has_no_control_or_direction_characters(capsys: pytest.CaptureFixture[str]) -> None:
    _render.note("a\x1b[2J\u202eb")
    _render.say(_render.plain_table(("x\x07", "y"), [("\u2028", "gpu01")]))
    seen = capsys.readouterr()
    assert seen.err == "a?[2J?b\n"
    assert seen.out == "X?  Y\n?   gpu01\n"
