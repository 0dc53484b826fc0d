"""What packages run when they are installed, upgraded, removed and purged, put together from scripts/*.

An rpm knows no purge: it does at removal what a deb does at purge.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from packages import COMPILE, MODULES, Package

DIRECTORY = Path(__file__).with_name("scripts")
UNITS = Path(__file__).with_name("systemd")
# Units that an administrator enables, and that packages only take along when they go.
OFF = frozenset({"amd-swarm-prune.timer", "amd-gpu-tracker.socket", "amd-gpu-usage.timer"})
# What a socket starts: where it runs, it goes on with the modules of the new version. Those who wait keep their place.
STARTED_BY_SOCKET = "amd-gpu-tracker.service"
# What is there where the original toolkit is installed, by deb and by rpm.
ORIGINAL_DEB = "/usr/local/bin/amd-ctk"
ORIGINAL_RPM = "/usr/share/amd-container-toolkit/cleanup.sh"
# dpkg runs the original's prerm before any script of the deb that replaces it, so packages that come before that one
# save. apt unpacks what a package depends on first; `dpkg -i *.deb` goes by name, and only the runtime's comes earlier.
SAVE_BY_DEB = ("amd-container-runtime", "amd-ctk")


def read_script(name: str) -> str:
    """Return the lines of one of scripts/*, "" where there is none."""
    path = DIRECTORY / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


def units_of(package: Package) -> list[str]:
    """Return the units of a package that can be enabled: those that say what wants them."""
    carries = any(source == "systemd" for source, _ in package.files)
    units = sorted(UNITS.glob("*")) if carries else []
    return [unit.name for unit in units if "[Install]" in unit.read_text(encoding="utf-8")]


def enabled_units_of(package: Package) -> list[str]:
    """Return the units that a package enables when it is first installed."""
    return [unit for unit in units_of(package) if unit not in OFF]


def maintainer_scripts(package: Package, tree: Path) -> dict[str, str]:
    """Return the maintainer scripts of a deb by name; those that would do nothing are left out."""
    name = package.name
    preinst = (
        [(("install", "upgrade"), f"original={ORIGINAL_DEB}\n{read_script('save-from-1')}")]
        if name in SAVE_BY_DEB
        else []
    )
    postinst = [(("configure",), read_script(f"{name}.configure") + _enable(package))]
    if package.is_meta:
        postinst.append((("configure",), read_script("restore-from-1")))
    prerm = [(("remove",), read_script(f"{name}.remove") + _stop(package))]
    postrm = [
        (("remove",), read_script(f"{name}.removed") + _take_out_links(package)),
        (("purge",), read_script(f"{name}.purge") + _forget_units(package)),
    ]
    scripts = {
        "preinst": _script(preinst),
        # Not for "configure" alone: dpkg's trigger comes with another word.
        "postinst": _script(postinst, f"/{COMPILE} || true\n" if package.compiles else ""),
        "prerm": _script(prerm, _clean_modules(tree)),
        "postrm": _script(postrm, _reload(package)),
    }
    return {name: text for name, text in scripts.items() if text}


def rpm_scriptlets(package: Package, interpreter: str, tree: Path) -> dict[str, str]:
    """Return the scriptlets of an rpm by name; rpm hands each the number of installed versions there will be."""
    name = package.name
    units = " ".join(units_of(package))
    enabled = " ".join(enabled_units_of(package))
    enable = f"systemctl --no-reload enable {enabled} >/dev/null 2>&1 || :\n" if enabled else ""
    go_on = f"systemctl try-restart {STARTED_BY_SOCKET} >/dev/null 2>&1"
    disable = f"systemctl --no-reload disable --now {units} >/dev/null 2>&1 || :\n" if units else ""
    scriptlets = {
        "pre": f"original={ORIGINAL_RPM}\n{read_script('save-from-1')}" if name == "amd-ctk" else "",
        "post": read_script(f"{name}.configure") + _when("$1 -eq 1", enable) + (f"{go_on} || :\n" if units else ""),
        "preun": _when("$1 -eq 0", read_script(f"{name}.remove") + disable) + _clean_modules(tree),
        "postun": _when("$1 -eq 0", read_script(f"{name}.removed") + read_script(f"{name}.purge")),
        "posttrans": read_script("restore-from-1") if package.is_meta else "",
        # Once, after a transaction that brought modules. rpm finds only directories then; the file that is python's
        # name it finds when that is installed.
        f"transfiletriggerin -- /{MODULES}": f"/{COMPILE} || :\n" if package.compiles else "",
        f"filetriggerin -- {interpreter}": f"/{COMPILE} || :\n" if package.compiles else "",
    }
    return {name: text for name, text in scriptlets.items() if text}


def _when(condition: str, text: str) -> str:
    return f"if [ {condition} ]; then\n{_indent(text)}fi\n" if text else ""


def _clean_modules(tree: Path) -> str:
    """Return what removes compiled modules; those of a lone module stand beside those of other packages."""
    names = [path.name for path in sorted((tree / MODULES).glob("*")) if not path.name.endswith(".dist-info")]
    directories = " ".join(f"/{MODULES}/{name}" for name in names if not name.endswith(".py"))
    beside = f"/{MODULES}/__pycache__"
    lines = [f"rm -f {beside}/{name.removesuffix('.py')}.*\n" for name in names if name.endswith(".py")]
    if lines:
        lines.append(f"rmdir --ignore-fail-on-non-empty {beside} 2>/dev/null || true\n")
    if directories:
        lines.append(f"find {directories} -name __pycache__ -prune -exec rm -rf {{}} + 2>/dev/null || true\n")
    return "".join(lines)


def _script(cases: Sequence[tuple[Sequence[str], str]], always: str = "") -> str:
    """Return a shell script that does each thing when dpkg calls it with one of the words."""
    lines = [f"case $1 in\n{' | '.join(words)})\n{_indent(text)}    ;;\nesac\n" for words, text in cases if text]
    return "\n".join(["#!/bin/sh\nset -e\n", *lines, *([always] if always else [])]) if lines or always else ""


def _indent(text: str) -> str:
    return "".join(f"    {line}" if line.strip() else line for line in text.splitlines(keepends=True))


def _enable(package: Package) -> str:
    """Enable units at the first installation, and never again what an administrator disabled."""
    lines = []
    for unit in units_of(package):
        if unit not in OFF:
            lines.append(f"deb-systemd-helper unmask {unit} >/dev/null || true\n")
            lines.append(f"if deb-systemd-helper --quiet was-enabled {unit}; then\n")
            lines.append(f"    deb-systemd-helper enable {unit} >/dev/null || true\nfi\n")
        lines.append(f"deb-systemd-helper update-state {unit} >/dev/null || true\n")
    if lines:
        names = " ".join(enabled_units_of(package))
        lines.append("if [ -d /run/systemd/system ]; then\n    systemctl daemon-reload >/dev/null || true\n")
        lines.append(f"    deb-systemd-invoke restart {names} >/dev/null || true\n")
        lines.append(f"    systemctl try-restart {STARTED_BY_SOCKET} >/dev/null || true\nfi\n")
    return "".join(lines)


def _stop(package: Package) -> str:
    names = " ".join(units_of(package))
    if not names:
        return ""
    return f"if [ -d /run/systemd/system ]; then\n    deb-systemd-invoke stop {names} >/dev/null || true\nfi\n"


def _take_out_links(package: Package) -> str:
    """Take out the links of units that are enabled; that somebody disabled one is remembered until the purge."""
    lines = []
    for unit in units_of(package):
        lines.append(f"    if deb-systemd-helper --quiet was-enabled {unit}; then\n")
        lines.append(f"        deb-systemd-helper purge {unit} >/dev/null || true\n    fi\n")
    return f"if command -v deb-systemd-helper >/dev/null; then\n{''.join(lines)}fi\n" if lines else ""


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
