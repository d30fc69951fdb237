"""Newer Slurm releases beside the installed one, from newer Debian suites in a root directory made with debootstrap.

The root is made once and kept in a cache. Programs run in it through a mount namespace of their own, whose mounts the
kernel takes away with the last process in it: nothing stays mounted, whatever happens to the tests. A directory of
small scripts stands in for the programs, so that everything else finds this Slurm on PATH as it finds any other.

`python tests/slurm/releases.py` makes what is missing; `make deps` calls it.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import fcntl
import hashlib
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

PACKAGES: Final = ("slurmctld", "slurmd", "slurm-client", "munge", "python3-venv", "ca-certificates")
DAEMONS: Final = ("slurmctld", "slurmd", "munged")
COMMANDS: Final = ("sbatch", "scontrol", "squeue", "sinfo", "scancel", "srun", "salloc")
CACHE_VARIABLE: Final = "PLACER_TEST_CACHE"
MANIFEST: Final = "placer-packages.txt"

# In the namespace: the kernel's file systems, this machine's names of hosts and $3… at their own paths, nothing else of
# this machine. The shell becomes `cat`, which ends with the pipe that it reads: when whoever started it closes that or
# dies.
_ENTER: Final = """
cd "$1"; old=$2; shift 2
mount --bind . . && cd "$PWD"
for path in /proc /dev /etc/hosts /etc/resolv.conf "$@"; do
  if test -d "$path"; then mkdir -p ".$path"; else test -e ".$path" || : >".$path"; fi
  mount --rbind "$path" ".$path"
done
mount -t tmpfs tmpfs ./run
mount -o remount,bind,ro .
pivot_root . ".$old"
umount -l "$old"
echo entered
exec cat
"""

_MAKE: Final = """
root=$1 suite=$2 mirror=$3; shift 3
debootstrap --variant=minbase --include=ca-certificates "$suite" "$root" "$mirror" /usr/share/debootstrap/scripts/sid
printf 'force-unsafe-io\\n' >"$root/etc/dpkg/dpkg.cfg.d/fast"
printf '#!/bin/sh\\nexit 101\\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
cat /etc/resolv.conf >"$root/etc/resolv.conf"
chroot "$root" apt-get -o Acquire::Check-Valid-Until=false update -qq  # a mirror may lag behind a moving suite
DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get install -y -qq --no-install-recommends "$@"
chroot "$root" apt-get clean
rm -rf "$root"/var/lib/apt/lists/* "$root/etc/resolv.conf"
: >"$root/etc/resolv.conf"
"""


class Release(NamedTuple):
    """A release of Slurm and the Debian suite that brings it."""

    name: str
    suite: str


NEWER: Final = (Release("24.11", "trixie"), Release("26.05", "forky"))


class NotHereError(Exception):
    """This machine cannot make or enter such a root; says why."""


def obstacle() -> str | None:
    """What keeps this machine from making and entering a root; None when nothing does."""
    if os.geteuid() != 0:
        return "newer Slurm releases run in a root of their own, which root alone may enter"
    missing = [name for name in ("debootstrap", "apt-get", "unshare", "nsenter") if shutil.which(name) is None]
    if missing:
        return f"newer Slurm releases need {', '.join(missing)}: apt-get install debootstrap"
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True)
    return None if done.returncode == 0 else f"no mount namespace of one's own here: {done.stderr.strip()}"


def cache_directory(environ: Mapping[str, str]) -> pathlib.Path:
    """`$PLACER_TEST_CACHE`, else `~/.cache/placer-tests`."""
    given = environ.get(CACHE_VARIABLE)
    return pathlib.Path(given) if given else pathlib.Path("~/.cache/placer-tests").expanduser()


def root_of(release: Release, cache: pathlib.Path) -> pathlib.Path:
    """The root of a release, made when it is not in the cache. Raises NotHereError."""
    why = obstacle()
    if why is not None:
        raise NotHereError(why)
    recipe = hashlib.sha256("\n".join((_MAKE, *PACKAGES)).encode()).hexdigest()[:12]
    root = cache / f"{release.suite}-{recipe}"
    if (root / MANIFEST).exists():
        return root
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{release.suite}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test process may be making it
        if not (root / MANIFEST).exists():
            for old in cache.glob(f"{release.suite}-*"):
                shutil.rmtree(old)
            _make(release, root)
    return root


def _make(release: Release, root: pathlib.Path) -> None:
    """Make a root under another name and rename it, so that one that is there is complete."""
    draft = root.with_name(f"{root.name}.draft")
    if draft.exists():
        shutil.rmtree(draft)
    log = root.with_name(f"{release.suite}.log")
    argv = ["unshare", "--mount", "sh", "-eu", "-c", _MAKE, "make", str(draft), release.suite, mirror(), *PACKAGES]
    with log.open("wb") as output:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=_with_proxy())
    if done.returncode != 0:
        last = log.read_text(errors="replace").splitlines()[-3:]
        raise NotHereError(f"the root of {release.suite} cannot be made (see {log}): {' | '.join(last)}")
    listing = ["chroot", str(draft), "dpkg-query", "-W", "-f", "${Package} ${Version}\n"]
    (draft / MANIFEST).write_text(subprocess.run(listing, capture_output=True, text=True, check=True).stdout)
    draft.rename(root)


def mirror() -> str:
    """The archive that apt takes this machine's own suite from. Raises NotHereError."""
    system = dict(
        line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line
    )
    codename = system.get("VERSION_CODENAME", "").strip('"')
    wanted = ["Created-By: Packages", f"Codename: {codename}", "Component: main"]
    argv = ["apt-get", "indextargets", *wanted, "--format", "$(REPO_URI)"]
    found = subprocess.run(argv, capture_output=True, text=True).stdout.split()
    if not found or not system.get("ID", "").strip('"') == "debian":
        raise NotHereError("apt on this machine is set to no Debian archive")
    return found[0]


def _with_proxy() -> dict[str, str]:
    """Our environment, with the proxy that apt is set to for those that only read variables."""
    argv = ["apt-config", "shell", "http_proxy", "Acquire::http::Proxy", "https_proxy", "Acquire::https::Proxy"]
    lines = shlex.split(subprocess.run(argv, capture_output=True, text=True).stdout)
    return {**os.environ, **dict(line.split("=", 1) for line in lines)}


@contextlib.contextmanager
def entered(root: pathlib.Path, *shared: pathlib.Path) -> Iterator[list[str]]:
    """A namespace whose root directory is `root`, read-only, with some paths of this machine at their own places.

    Gives the words before a command that is to run there. Raises NotHereError.
    """
    argv = ["unshare", "--mount", "sh", "-eu", "-c", _ENTER, "enter", str(root), "/mnt", *map(str, shared)]
    holder = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with holder:
        assert holder.stdout is not None
        if holder.stdout.readline() != "entered\n":
            _, complaint = holder.communicate()
            raise NotHereError(f"cannot enter {root}: {complaint.strip()}")
        yield ["nsenter", f"--mount=/proc/{holder.pid}/ns/mnt", "--"]


def write_programs(folder: pathlib.Path, inside: list[str]) -> None:
    """Scripts named like Slurm's programs that run those of the namespace, in the caller's directory."""
    for name in (*DAEMONS, *COMMANDS):
        place = "/usr/sbin" if name in DAEMONS else "/usr/bin"
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(inside)} /usr/bin/env -C "$PWD" {place}/{name} "$@"\n')
        script.chmod(0o755)


@contextlib.contextmanager
def programs(release: Release, environ: Mapping[str, str]) -> Iterator[pathlib.Path]:
    """A directory for PATH through which Slurm's programs are those of `release`. Raises NotHereError.

    They see this machine's directory for temporary files and the directory in which the tests were started.
    """
    root = root_of(release, cache_directory(environ))
    temporary = pathlib.Path(tempfile.gettempdir())
    with entered(root, temporary, pathlib.Path.cwd()) as inside, tempfile.TemporaryDirectory(prefix="pl") as name:
        folder = pathlib.Path(name)
        write_programs(folder, inside)
        yield folder


@contextlib.contextmanager
def python(release: Release, environ: Mapping[str, str], *shared: pathlib.Path) -> Iterator[list[str]]:
    """The words before arguments of a Python of that release's suite that has what placer and its tests need.

    It runs in the directory in which the tests were started, and sees the paths in `shared`. Raises NotHereError.
    """
    cache = cache_directory(environ)
    root = root_of(release, cache)
    project = tomllib.loads(pathlib.Path("pyproject.toml").read_text())
    wanted = [*project["project"]["dependencies"], *project["dependency-groups"]["test"]]
    venv = cache / f"python-{root.name}-{hashlib.sha256(repr(wanted).encode()).hexdigest()[:12]}"
    draft = venv.with_name(f"python-{release.suite}.draft")
    with (cache / f"python-{release.suite}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not venv.exists():
            for old in cache.glob(f"python-{release.suite}*/"):
                shutil.rmtree(old)
            draft.mkdir()
            with entered(root, pathlib.Path(tempfile.gettempdir()), draft, *_for_pip(environ)) as inside:
                _install(inside, draft, wanted)
            draft.rename(venv)
    here = pathlib.Path.cwd()
    seen = [path for path in (pathlib.Path(tempfile.gettempdir()), here, venv, *shared) if path.exists()]
    with entered(root, *seen) as inside:
        yield [*inside, "/usr/bin/env", "-C", str(here), f"PYTHONPATH={here}/src:{venv}", "/usr/bin/python3"]


def _for_pip(environ: Mapping[str, str]) -> list[pathlib.Path]:
    """What pip is told on this machine: its configuration, the certificates, a directory of wheels."""
    names = ["/etc/pip.conf", "/etc/ssl/certs", environ.get("PIP_CERT", ""), environ.get("PIP_FIND_LINKS", "")]
    return [path for name in names if name.startswith("/") and (path := pathlib.Path(name)).exists()]


def _install(inside: list[str], folder: pathlib.Path, wanted: list[str]) -> None:
    """Put packages into a directory for PYTHONPATH, with the pip of a throw-away environment."""
    for argv in (
        ["/usr/bin/python3", "-m", "venv", f"{folder}/.venv"],
        [f"{folder}/.venv/bin/pip", "install", "--quiet", "--target", str(folder), *wanted],
    ):
        done = subprocess.run([*inside, *argv], capture_output=True, text=True)
        if done.returncode != 0:
            raise NotHereError(f"no Python packages for this suite: {done.stderr.strip()[-400:]}")
    shutil.rmtree(folder / ".venv")


def _made(release: Release) -> str:
    begin = time.monotonic()
    try:
        root = root_of(release, cache_directory(os.environ))
        if release == NEWER[-1]:
            with python(release, os.environ):
                pass
    except NotHereError as error:
        return f"Slurm {release.name} is not here: {error}"
    return f"Slurm {release.name} is in {root} ({time.monotonic() - begin:.0f} s)"


def main() -> None:
    """Make the roots that are missing, side by side. What cannot be made is said; its tests skip, or fail in CI."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for line in pool.map(_made, NEWER):
            print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
