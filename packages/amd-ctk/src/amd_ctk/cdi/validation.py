"""Find out whether a CDI spec is well formed and true of this host."""

from __future__ import annotations

from amd_ctk.cdi.errors import CdiError
from amd_ctk.cdi.specs import find_tracker_hooks
from amd_device_spec.cdi import build_cdi_hooks
from amd_device_spec.cdi_text import BrokenText, parse_spec
from amd_device_spec.validate import Problem, form_problems, format_place
from amd_device_spec.validate_host import host_problems
from amd_gpu_tracker.hooks.spec_entries import is_claim_hook
from amdgpu_discovery.device_nodes import find_device_nodes
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.selection import select_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from amd_device_spec.cdi import CdiOptions
    from amd_device_spec.cdi_text import SpecText
    from amdgpu_discovery.host import Host


def find_problems(host: Host, path: str, options: CdiOptions, *, form_only: bool = False) -> list[str]:
    """Return a line, with its place, for each problem of the spec at `path`; [] for a valid one.

    `options` are those it was generated with. CdiError where the file or the host cannot be read.
    """
    try:
        text = parse_spec(_read(path))
    except BrokenText as error:
        return [f"{path}:{error.line}:{error.column}: {error.message}"]
    problems = form_problems(text.tree)
    if not problems and text.tree["kind"] != options.kind:
        problems = [Problem(place=("kind",), message=f"not {options.kind}")]
    if not problems and not form_only:
        problems = _find_untruths(host, text.tree, options)
    return _format_problems(path, text, problems)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise CdiError(
            f"failed to validate CDI spec: opening CDI spec file {path}: {reason(error)}",
            hint="'amd-ctk cdi generate' makes one",
        ) from error


def _find_untruths(host: Host, spec: dict[str, Any], options: CdiOptions) -> list[Problem]:
    try:
        gpus = find_gpus(host)
        numbers = {gpu.number for gpu in select_gpus(gpus, options.request)}
        gpus = [gpu for gpu in gpus if gpu.number in numbers]
        hooks = build_cdi_hooks(find_tracker_hooks(host))
        return [*host_problems(spec, gpus, find_device_nodes(host, gpus), hooks=hooks), *_idle_hooks(spec, hooks)]
    except ToolkitError as error:
        raise CdiError(f"failed to validate CDI spec: {error.message}", hint=error.hint) from error


def _idle_hooks(spec: dict[str, Any], hooks: list[dict[str, Any]]) -> Iterator[Problem]:
    for position, hook in enumerate(spec.get("containerEdits", {}).get("hooks", ())):
        if is_claim_hook(hook) and not hooks:
            place = ("containerEdits", "hooks", position)
            yield Problem(place=place, message="a hook of the GPU tracker, which is disabled")


def _format_problems(path: str, text: SpecText, problems: list[Problem]) -> list[str]:
    """Return the problems in the order in which they stand in the file."""
    placed = sorted(
        (text.position(problem.place), format_place(problem.place), problem.message) for problem in problems
    )
    return [
        f"{path}:{line}:{column}: {f'{place}: ' if place else ''}{message}" for (line, column), place, message in placed
    ]
