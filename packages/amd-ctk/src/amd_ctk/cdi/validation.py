"""Check whether a CDI spec is well formed and matches this host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from amd_ctk.cdi.engine_devices import LARGEST_SPEC
from amd_ctk.cdi.generate_options import CdiError
from amd_ctk.cdi.other_maker import accept_hooks, find_other_maker
from amd_ctk.cdi.specs import FoundGpus, find_hooks, make_spec, select_cdi_gpus
from amd_device_spec.cdi.spec import CdiOptions, build_cdi_hooks
from amd_device_spec.cdi.text import BrokenText, SpecText, parse_spec
from amd_device_spec.cdi.validate import Problem, form_problems, format_location
from amd_device_spec.cdi.validate_host import host_problems
from amd_gpu_tracker.claims.hook_entries import is_claim_hook
from amdgpu_discovery.driver.device_nodes import find_device_nodes
from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.gpu import Gpu
from amdgpu_discovery.host import Host
from amdgpu_discovery.untrusted.plain_files import read_plain_file

# After GPUs were partitioned, every line of a spec may be wrong.
SHOWN = 10


def find_problems(host: Host, path: str, options: CdiOptions, *, form_only: bool = False) -> list[str]:
    """Return a line with a location for each of the first problems of the spec at `path`; [] if it is valid.

    The spec was generated with `options`. CdiError if the file or the host cannot be read.
    """
    try:
        text = parse_spec(_read(path))
    except BrokenText as error:
        return [f"{path}:{error.line}:{error.column}: {error.message}"]
    found = FoundGpus(host)
    if not form_only and text.tree == _make_spec(found, options):
        # A spec made here is valid. Importing the schema's library would take longer than all of this.
        return []
    problems = form_problems(text.tree)
    if not problems and text.tree["kind"] != options.kind:
        problems = [Problem(location=("kind",), message=f"not {options.kind}")]
    other_gpus: list[str] = []
    if not problems and not form_only:
        other_gpus, problems = _find_mismatches(found, text.tree, options)
    return [*other_gpus, *_format_problems(path, text, problems)]


def read_other_maker(host: Host, path: str) -> str:
    """Return the amd-ctk of another installation that made the spec at `path`, "" if this one did."""
    try:
        spec = parse_spec(_read(path)).tree
        return find_other_maker(build_cdi_hooks(find_hooks(host)), spec) if isinstance(spec, dict) else ""
    except (BrokenText, ToolkitError):
        return ""


def _read(path: str) -> bytes:
    try:
        return read_plain_file(path, largest=LARGEST_SPEC)[0]
    except OSError as error:
        raise CdiError(
            f"failed to validate CDI spec: opening CDI spec file {path}: {reason(error)}",
            hint="'sudo amd-ctk cdi generate' makes one",
        ) from error


def _make_spec(found: FoundGpus, options: CdiOptions) -> dict[str, Any] | None:
    try:
        return make_spec(found, options)
    except ToolkitError:
        return None


def _find_mismatches(found: FoundGpus, spec: dict[str, Any], options: CdiOptions) -> tuple[list[str], list[Problem]]:
    """Return a sentence that sums up how a spec differs from a host, if there is one, and all differences; CdiError."""
    host = found.host
    try:
        gpus = select_cdi_gpus(host, found.numbered, options)
        hooks = accept_hooks(build_cdi_hooks(find_hooks(host)), spec)
        mismatches = host_problems(spec, gpus, find_device_nodes(host, gpus), hooks=hooks)
    except ToolkitError as error:
        raise CdiError(f"failed to validate CDI spec: {error.message}", hint=error.hint) from error
    return _other_gpus(spec, gpus), [*mismatches, *_idle_hooks(spec, hooks)]


def _other_gpus(spec: dict[str, Any], gpus: Sequence[Gpu]) -> list[str]:
    """Return a sentence if the number of GPUs differs, as after GPUs were changed or partitioned."""
    offered = sum(device["name"].isdecimal() for device in spec["devices"])
    if offered == len(gpus):
        return []
    return [f"the spec offers {_count(offered)}, but this machine has {_count(len(gpus))}"]


def _count(gpus: int) -> str:
    return f"{gpus} GPU{'' if gpus == 1 else 's'}"


def _idle_hooks(spec: dict[str, Any], hooks: list[dict[str, Any]]) -> Iterator[Problem]:
    for position, hook in enumerate(spec.get("containerEdits", {}).get("hooks", ())):
        if is_claim_hook(hook) and not any(map(is_claim_hook, hooks)):
            location = ("containerEdits", "hooks", position)
            yield Problem(location=location, message="a hook of the GPU tracker, which is disabled")


def _format_problems(path: str, text: SpecText, problems: list[Problem]) -> list[str]:
    """Format the first problems in the order of the file, and the number of further ones."""
    placed = sorted(
        (text.position(problem.location), format_location(problem.location), problem.message) for problem in problems
    )
    lines = []
    for (line, column), location, message in placed[:SHOWN]:
        about = f"{location}: {message}" if location else message
        lines.append(f"{path}:{line}:{column}: {about}")
    more = len(placed) - SHOWN
    if more > 0:
        lines.append(f"and {more} more problem{'' if more == 1 else 's'}")
    return lines
