"""Checks of the CDI specs."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from amd_ctk.cdi.generate_options import DEFAULT_OUTPUT
from amd_ctk.doctor.check import Finding, bad, check, not_checked, note, ok
from amd_ctk.doctor.facts.all import Facts
from amd_ctk.doctor.facts.cdi import CdiFacts, SpecProblem
from amd_device_spec.cdi.version import latest_version, unread_versions

GENERATE = "sudo amd-ctk cdi generate"
REFRESH = "sudo amd-ctk cdi refresh"


@check(why="an engine gives out the nodes that the spec names, even if the host has changed", see="how-to/cdi.md")
def check_cdi(facts: Facts) -> Finding | None:
    """Does the CDI spec match this host?"""
    cdi = facts.cdi
    closed = next((broken for broken in cdi.broken if broken.is_closed), None)
    if closed:
        return not_checked(f"{closed.path} cannot be read", needs="root")
    if cdi.broken:
        broken = cdi.broken[0]
        return bad(f"engines ignore a CDI spec: {broken.path}: {broken.words}", fix=_replace_spec(broken.path, cdi))
    if cdi.conflicts:
        return None
    if not cdi.paths:
        return note("no CDI spec offers amd.com/gpu, for engines that use CDI", fix=GENERATE)
    if cdi.untrue:
        # A spec is compared with the host, its settings and the tracker's state, so these must be right first.
        is_toolkit_well = not (facts.toolkit.settings_problem or facts.toolkit.tracker_problem)
        is_host_well = is_toolkit_well and facts.gpus.gpus and not facts.gpus.node_problems
        return bad(cdi.untrue[0].words, fix=_fix_mismatch(cdi.untrue[0], cdi)) if is_host_well else None
    return _judge_match(cdi)


def _judge_match(cdi: CdiFacts) -> Finding:
    words = f"{', '.join(cdi.paths)} matches this host"
    words += f"; another amd-ctk made it, {cdi.other_maker}" if cdi.other_maker else ""
    if cdi.broken_of_others:
        other = cdi.broken_of_others[0]
        return note(f"{words}; engines ignore {other.path}: {other.words}", fix=f"correct or move {other.path}")
    return ok(words)


def _fix_mismatch(problem: SpecProblem, cdi: CdiFacts) -> str:
    if problem.is_refreshed:
        return REFRESH
    # Version 1 of AMD's toolkit leaves such a spec, and nothing refreshes it.
    return GENERATE if problem.path == DEFAULT_OUTPUT else _replace_spec(problem.path, cdi)


def _replace_spec(path: str, cdi: CdiFacts) -> str:
    return f"{_move_away(path)} && {REFRESH if cdi.has_refreshed else GENERATE}"


def judge_version(engine: str, number: Sequence[int], cdi: CdiFacts) -> Finding | None:
    """Return a finding if an engine cannot read the version of a spec; None if it can, or if that is unknown."""
    unread = unread_versions(engine, number)
    words = f"{engine} {'.'.join(map(str, number))} reads CDI specs up to version {latest_version(engine, number)}"
    if cdi.latest_version in unread:
        fix = _replace_spec(cdi.latest_path, cdi)
        return bad(f"{words}, but {cdi.latest_path} has {cdi.latest_version}", fix=fix)
    late = next((path for path, version in cdi.versions_of_others.items() if version in unread), "")
    return note(f"{words}, and leaves {late} of another vendor out, which has a later one") if late else None


def judge_directories(engine: str, directories: Sequence[str], cdi: CdiFacts) -> Finding | None:
    """Return a finding if an engine looks only in these directories, and the specs of AMD's GPUs are elsewhere."""
    if not (directories and cdi.paths):
        return None
    words = f"{engine} reads CDI specs in {' and '.join(directories)} only, and not {cdi.paths[0]}"
    return bad(words, fix=f"sudo amd-ctk cdi generate --output={quote(f'{directories[0]}/amd.json')}")


@check(
    why="engines ignore a device that two files in one directory define; /run/cdi overrides /etc/cdi",
    see="reference/cdi.md",
)
def check_cdi_names(facts: Facts) -> Finding | None:
    """Does one spec shadow another?"""
    cdi = facts.cdi
    if cdi.conflicts:
        # One of these files goes, never the toolkit's own.
        other = next((path for path in cdi.conflicting if path != DEFAULT_OUTPUT), "")
        return bad(f"two specs define {cdi.conflicts[0]}, so engines use neither", fix=_move_away(other))
    if cdi.shadowed:
        return note(f"{cdi.shadowed[0]} is overridden by another spec", fix="amd-ctk cdi list --specs")
    return ok("no CDI spec shadows another") if cdi.paths else None


def _move_away(path: str) -> str:
    # Engines read *.json, *.yaml and *.yml only.
    return f"sudo mv {quote(path)} {quote(f'{path}.off')}"
