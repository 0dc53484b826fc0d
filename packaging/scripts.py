"""Build the scripts that packages run on install, upgrade, removal and purge from scripts/*.

rpm has no purge, so an rpm's removal also does what purging a deb does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from packages import ASSEMBLE, CURRENT, LIBRARY, PARTS, Package

DIRECTORY = Path(__file__).with_name("scripts")
UNITS = Path(__file__).with_name("systemd")
# Administrators enable these units; packages only disable them on removal.
OFF = frozenset({"amd-swarm-prune.timer", "amd-gpu-tracker.socket", "amd-gpu-usage.timer"})
# Precedes calls of the toolkit's programs. Only the first of several upgraded packages does work, after unpacking all.
ASSEMBLE_NOW = f"/{ASSEMBLE}"
# Removes everything that ASSEMBLE wrote.
TAKE_GENERATIONS = f"rm -rf /{CURRENT} /{LIBRARY}/generations /usr/lib/tmpfiles.d/amd-container-toolkit.conf\n"
# The socket is passed to the service.
SOCKET, SERVICE = "amd-gpu-tracker.socket", "amd-gpu-tracker.service"
# Exists if the original toolkit is installed, by deb and by rpm.
ORIGINAL_DEB = "/usr/local/bin/amd-ctk"
ORIGINAL_RPM = "/usr/share/amd-container-toolkit/cleanup.sh"
# dpkg runs the original's prerm before any script of the deb that replaces it, so packages unpacked before that deb
# must save. apt unpacks dependencies first; `dpkg -i *.deb` goes by name, and only the runtime comes earlier.
SAVE_BY_DEB = ("amd-container-runtime", "amd-ctk")


def read_script(name: str) -> str:
    """Return the text of a file in scripts/, "" if it does not exist."""
    path = DIRECTORY / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


def units_of(package: Package) -> list[str]:
    """Return the units of a package that can be enabled because they have an [Install] section."""
    return [unit.name for unit in _files_of(package) if "[Install]" in unit.read_text(encoding="utf-8")]


def _files_of(package: Package) -> list[Path]:
    carries = any(source == "systemd" for source, _ in package.files)
    # Templates are left out. Only their instances are enabled and stopped, by scripts/amd-ctk.*.
    return [unit for unit in sorted(UNITS.glob("*")) if "@." not in unit.name] if carries else []


def enabled_units_of(package: Package) -> list[str]:
    """Return the units that a package enables at its first installation."""
    return [unit for unit in units_of(package) if unit not in OFF]


def maintainer_scripts(package: Package) -> dict[str, str]:
    """Return the maintainer scripts of a deb by name, without empty ones."""
    name = package.name
    preinst = (
        [(("install", "upgrade"), f"original={ORIGINAL_DEB}\n{read_script('save-from-1')}")]
        if name in SAVE_BY_DEB
        else []
    )
    # The trigger also follows the removal of another part, which must succeed even on a full disk.
    assemble = "" if package.is_meta else f'{ASSEMBLE_NOW} || [ "$1" = triggered ]\n'
    postinst = [(("configure",), read_script(f"{name}.configure") + _enable(package))]
    if package.is_meta:
        postinst.append((("configure",), read_script("restore-from-1")))
    take = TAKE_GENERATIONS if package.assembles else ""
    prerm = [(("remove",), read_script(f"{name}.remove") + _stop(package) + take)]
    postrm = [
        (("remove",), read_script(f"{name}.removed")),
        (("purge",), read_script(f"{name}.purge") + _forget_units(package)),
    ]
    scripts = {
        "preinst": _script(preinst),
        # Not only for "configure": dpkg's trigger passes another word.
        "postinst": _script(postinst, first=assemble),
        "prerm": _script(prerm),
        "postrm": _script(postrm, last=_reload(package)),
    }
    return {name: text for name, text in scripts.items() if text}


def rpm_scriptlets(package: Package, interpreter: str) -> dict[str, str]:
    """Return the scriptlets of an rpm by name. rpm passes the number of versions installed afterwards."""
    name = package.name
    units = " ".join(units_of(package))
    # Like rpm's %systemd_post and %systemd_preun.
    preset = f"systemctl --no-reload preset {units} >/dev/null 2>&1 || :\n" if units else ""
    disable = f"systemctl --no-reload disable --now {units} >/dev/null 2>&1 || :\n" if units else ""
    if running := " ".join(unit.name for unit in _files_of(package)):
        disable += f"systemctl stop {running} >/dev/null 2>&1 || :\n"
    assemble = f"{ASSEMBLE_NOW} || :\n"
    take = TAKE_GENERATIONS if package.assembles else ""
    last = read_script("restore-from-1" if package.is_meta else f"{name}.configure")
    scriptlets = {
        "pre": f"original={ORIGINAL_RPM}\n{read_script('save-from-1')}" if name == "amd-ctk" else "",
        "post": _when("$1 -eq 1", preset),
        "preun": _when("$1 -eq 0", read_script(f"{name}.remove") + disable + take),
        "postun": _when("$1 -eq 0", read_script(f"{name}.removed") + read_script(f"{name}.purge")),
        # rpm unpacks and runs %post package by package, so only here all packages have the same version.
        "posttrans": f"{assemble}{last}{_go_on(package)}" if last else "",
        # Runs once, after a transaction that added or removed parts. At that point rpm matches only directories. It
        # matches python's file name when python is installed.
        f"transfiletriggerin -- /{PARTS}": assemble if package.assembles else "",
        f"transfiletriggerpostun -- /{PARTS}": assemble if package.assembles else "",
        f"filetriggerin -- {interpreter}": assemble if package.assembles else "",
    }
    return {name: text for name, text in scriptlets.items() if text}


def _go_on(package: Package) -> str:
    """Start enabled units with the files of this version, as debs do."""
    if not units_of(package):
        return ""
    restarted = " ".join(enabled_units_of(package))
    others = " ".join(unit for unit in units_of(package) if unit in OFF and unit != SOCKET)
    return f"""\
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload >/dev/null 2>&1 || :
    for unit in {restarted}; do
        systemctl --quiet is-enabled $unit 2>/dev/null && systemctl restart $unit >/dev/null 2>&1 || :
    done
    for unit in {others}; do
        systemctl --quiet is-enabled $unit 2>/dev/null && systemctl start $unit >/dev/null 2>&1 || :
    done
    if ! systemctl --quiet is-active {SOCKET} || systemctl --quiet is-failed {SERVICE}; then
        systemctl --quiet is-enabled {SOCKET} 2>/dev/null && systemctl restart {SOCKET} >/dev/null 2>&1 || :
    fi
fi
"""


def _when(condition: str, text: str) -> str:
    return f"if [ {condition} ]; then\n{_indent(text)}fi\n" if text else ""


def _script(cases: Sequence[tuple[Sequence[str], str]], *, first: str = "", last: str = "") -> str:
    """Return a shell script that runs each text if dpkg calls it with one of the words."""
    lines = [f"case $1 in\n{' | '.join(words)})\n{_indent(text)}    ;;\nesac\n" for words, text in cases if text]
    texts = [text for text in (first, *lines, last) if text]
    return "\n".join(["#!/bin/sh\nset -e\n", *texts]) if texts else ""


def _indent(text: str) -> str:
    return "".join(f"    {line}" if line.strip() else line for line in text.splitlines(keepends=True))


def _enable(package: Package) -> str:
    """Enable units at the first installation, and start enabled ones; the administrator's choice is kept.

    Like dh_installsystemd, this keeps links when a package is removed.
    """
    lines = []
    for unit in units_of(package):
        if unit not in OFF:
            lines.append(f"deb-systemd-helper unmask {unit} >/dev/null || true\n")
            lines.append(f"if deb-systemd-helper --quiet was-enabled {unit}; then\n")
            lines.append(f"    deb-systemd-helper enable {unit} >/dev/null || true\nfi\n")
        lines.append(f"deb-systemd-helper update-state {unit} >/dev/null || true\n")
    if lines:
        names = " ".join(enabled_units_of(package))
        others = " ".join(unit for unit in units_of(package) if unit in OFF and unit != SOCKET)
        lines.append("if [ -d /run/systemd/system ]; then\n    systemctl daemon-reload >/dev/null || true\n")
        lines.append(f"    deb-systemd-invoke restart {names} >/dev/null || true\n")
        # Silent, because it prints a message for each disabled unit.
        lines.append(f"    deb-systemd-invoke start {others} >/dev/null 2>&1 || true\n")
        # A version without the socket was installed in between, and the open socket is no longer passed to a service.
        lines.append(f"    systemctl --quiet is-active {SOCKET} && ! systemctl --quiet is-failed {SERVICE} ||\n")
        lines.append(f"        deb-systemd-invoke restart {SOCKET} >/dev/null 2>&1 || true\nfi\n")
    return "".join(lines)


def _stop(package: Package) -> str:
    # Including services of timers: a running one would write its file again after the file was removed.
    names = " ".join(unit.name for unit in _files_of(package))
    if not names:
        return ""
    return f"if [ -d /run/systemd/system ]; then\n    deb-systemd-invoke stop {names} >/dev/null || true\nfi\n"


def _forget_units(package: Package) -> str:
    names = units_of(package)
    if not names:
        return ""
    lines = [
        f"    deb-systemd-helper {verb} {unit} >/dev/null || true\n" for unit in names for verb in ("purge", "unmask")
    ]
    return "if command -v deb-systemd-helper >/dev/null; then\n" + "".join(lines) + "fi\n"


def _reload(package: Package) -> str:
    if not units_of(package):
        return ""
    return "if [ -d /run/systemd/system ]; then\n    systemctl daemon-reload >/dev/null || true\nfi\n"
