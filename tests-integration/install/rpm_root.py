"""A root file system that rpms are installed in by dnf, with Debian's programs and a stand-in for the distribution.

No distribution with rpms can be reached from everywhere; its dnf, its scriptlets' shell and python are real here.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

# Beside what it says is there, it owns the name of the python that our packages run with.
STAND_IN = """Name: distribution
Version: {version}
Release: 1
Summary: Stands in for a distribution
License: Apache-2.0
BuildArch: noarch
Provides: /bin/sh, {provides}
%description
It provides what is there already.
%install
mkdir -p %{{buildroot}}/usr/bin
ln -s {python} %{{buildroot}}{interpreter}
%files
{interpreter}
"""
MOUNT = """
set -e
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=$UPPER,workdir=$WORK" "$SYSTEM"
mount -t proc proc "$SYSTEM/proc"
mount --rbind /dev "$SYSTEM/dev"
mount --rbind /sys "$SYSTEM/sys"
"""
DNF = """dnf -y -q --installroot="$SYSTEM" --releasever=9 --disablerepo='*' --repofrompath=toolkit,"$REPOSITORY" \
    --nogpgcheck --setopt=cachedir="$WORK.cache" --setopt=reposdir=/dev/null --setopt=keepcache=0 \
    --setopt=metadata_expire=0 """

INSIDE = 'chroot "$SYSTEM" sh -c "cd /root; eval \\"\\$1\\"" sh'


class RpmRoot:
    """One root file system; what is done to it stays from call to call."""

    def __init__(self, base: Path, lower: list[Path], repository: Path) -> None:
        directories = {name: base / name for name in ("upper", "work", "system")}
        for directory in directories.values():
            directory.mkdir(parents=True, exist_ok=True)
        self.upper = directories["upper"]
        self.repository = repository
        self._environment = {name.upper(): f"{path}" for name, path in directories.items()}
        self._environment |= {
            "LOWER": ":".join(map(str, lower)),
            "REPOSITORY": f"{repository}",
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": f"{base}",
            "LC_ALL": "C.UTF-8",
            "DEBIAN_FRONTEND": "noninteractive",
        }

    def dnf(self, words: str, *, check: bool = True) -> str:
        """Call dnf, which sees our repository alone."""
        return self._run(f"{DNF} {words}", check=check)

    def dnf_from(self, definitions: Path, words: str) -> str:
        """Call dnf, which sees the repositories that files of a directory define, and checks their signatures."""
        options = f'--setopt=reposdir="{definitions}" --setopt=cachedir="$WORK.cache"'
        return self._run(f'dnf -y -q --installroot="$SYSTEM" --releasever=9 {options} {words}', check=True)

    def run(self, script: str, *, check: bool = True) -> str:
        """Run a shell script in the root file system; return its output."""
        return self._run(f"{INSIDE} {shlex.quote(script)}", check=check)

    def run_around(self, before: str, words: str, after: str) -> str:
        """Call dnf between two scripts, and let live through it what the first one starts."""
        return self._run(f"{INSIDE} {shlex.quote(before)}\n{DNF} {words}\n{INSIDE} {shlex.quote(after)}", check=True)

    def write(self, path: str, text: str) -> None:
        """Write a file, as if it had been there before."""
        target = Path(f"{self.upper}{path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def _run(self, script: str, *, check: bool) -> str:
        answer = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", MOUNT + script],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        assert not check or answer.returncode == 0, f"{script}\nended with {answer.returncode}:\n{answer.stdout}"
        return answer.stdout


def build_rpm(spec: str, directory: Path) -> None:
    """Build an rpm from the text of its spec file."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "a.spec").write_text(spec, encoding="utf-8")
    words = ["--define", f"_topdir {directory}/rpmbuild", "--define", f"_rpmdir {directory}"]
    subprocess.run(["rpmbuild", "--quiet", *words, "-bb", directory / "a.spec"], check=True, capture_output=True)


def build_rpms(checkout: Path, directory: Path) -> list[Path]:
    """Build all rpms of a checkout into a directory."""
    builder = [sys.executable, checkout / "packaging/redhat.py", directory]
    answer = subprocess.run(builder, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return sorted(directory.glob("*.rpm"))


def make_repository(directory: Path) -> None:
    """Index every rpm below a directory."""
    subprocess.run(["createrepo_c", "--quiet", directory], check=True)
