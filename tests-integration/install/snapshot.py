"""Everything that is on a system's disk, but for what package managers write down for themselves."""

from __future__ import annotations

from collections.abc import Callable

_ELSEWHERE = ("/proc", "/sys", "/dev", "/run", "/tmp", "/host")
_BOOKS = ("/var/lib/dpkg", "/var/lib/apt", "/var/lib/rpm", "/var/lib/dnf", "/var/cache", "/var/log/apt",
          "/var/log/journal", "/var/log/dpkg.log", "/var/log/alternatives.log", "/var/log/dnf*", "/var/log/hawkey.log",
          "/var/lib/systemd/deb-systemd-helper-enabled", "/etc/ld.so.cache")  # fmt: skip
_SNAPSHOT = r"""
set -e
find / -xdev \( {pruned} -o -name __pycache__ -path '/usr/lib/python3*' \) -prune -o \
    -printf '%p\t%y %m %U:%G %l\n' | sort
find /etc /usr /var /opt /root -xdev \( {pruned} -o -path '/usr/lib/python3*' -o -path /var/log \) -prune -o \
    -type f -exec sha256sum {{}} + | sed 's/^\([0-9a-f]*\)  \(.*\)/content of \2\t\1/' | sort
"""


def take_snapshot(run: Callable[[str], str]) -> dict[str, str]:
    """Return the kind, mode, owner and content of every file by its path."""
    pruned = " -o ".join(f"-path '{path}'" for path in (*_ELSEWHERE, *_BOOKS))
    lines = run(_SNAPSHOT.format(pruned=pruned)).splitlines()
    return {path: facts for path, _, facts in (line.partition("\t") for line in lines)}


def changes(before: dict[str, str], after: dict[str, str]) -> dict[str, str | None]:
    """Return what is there and was not, or is otherwise than it was; None for what is gone."""
    return {path: after.get(path) for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
