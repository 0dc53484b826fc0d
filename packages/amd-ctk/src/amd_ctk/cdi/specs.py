"""Make the CDI spec of a host, put it where engines read it, and bring every generated spec up to date."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from amd_ctk.cdi.generate_options import (
    DEFAULT_OUTPUT,
    SPEC_DIRECTORIES,
    CdiError,
    GenerateOptions,
    delete_generate_options,
    find_generate_options,
    read_all_generate_options,
)
from amd_ctk.gpus.gpu_groups import Groups, select_groups
from amd_device_spec.cdi.spec import CdiOptions, build_cdi_spec, check_options
from amd_device_spec.cdi.text import format_spec, parse_spec
from amd_device_spec.requested import select_requested
from amd_device_spec.settings import read_settings
from amd_gpu_tracker import Tracker
from amd_gpu_tracker.claims.hook_entries import IGNORE, claim_hook, refusing_hook, release_hook, requirements_hook
from amdgpu_discovery.choices.selection import resolve
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.driver.device_nodes import find_device_nodes
from amdgpu_discovery.errors import FileError, RequestError, SpecError, ToolkitError, reason
from amdgpu_discovery.files import make_directories, remove_file, replace_file
from amdgpu_discovery.gpu import Gpu
from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import require_all_gpus
from amdgpu_discovery.value import Value

# Directories that are empty after a boot or private to a unit (PrivateTmp). A missing directory in them means nothing.
VOLATILE = ("/run/", "/var/run/", "/tmp/", "/var/tmp/")  # noqa: S108  nothing is written there
NEEDS_ROOT = "run the command with sudo"


class Refreshed(Value):
    """The result of a refresh for one spec."""

    output: str
    changed: bool = False
    # Its directory is gone, so it will not be refreshed again.
    forgotten: bool = False
    # The reason why it could not be updated.
    error: ToolkitError | None = None


class FoundGpus:
    """The GPUs of a host and the groups of its settings. Each is found when it is needed, and once."""

    def __init__(self, host: Host) -> None:
        self.host = host

    @cached_property
    def gpus(self) -> list[Gpu]:
        """Return the GPUs, as the driver lists them now."""
        return find_gpus(self.host)

    @cached_property
    def numbered(self) -> list[Gpu]:
        """Return the GPUs, numbered as in a spec.

        While a tracked GPU is lost, the tracked numbers count, so that no name comes to mean another GPU.
        """
        return Tracker(self.host).gpus.number(self.gpus)

    @cached_property
    def groups(self) -> Groups:
        """Return the groups in the settings, and their errors; ToolkitError."""
        settings = read_settings(self.host)
        return select_groups(settings, self.numbered if settings.gpu_groups else ())


def make_spec(found: FoundGpus, options: CdiOptions) -> dict[str, Any]:
    """Return the spec for the current state of a host; CdiError if it has no GPU or lacks a device node."""
    host = found.host
    try:
        check_options(options)
        gpus = _find_requested(found, options)
        return build_cdi_spec(
            gpus,
            find_device_nodes(host, gpus),
            options,
            hooks=find_hooks(host),
            groups=_find_groups(found, gpus),
            keep_host_mode=read_settings(host).device_mode == "host",
        )
    except CdiError:
        raise
    except ToolkitError as error:
        raise _cannot_generate(error) from error


def select_cdi_gpus(host: Host, gpus: Sequence[Gpu], options: CdiOptions) -> list[Gpu]:
    """Return the GPUs for a spec with these options, without lost GPUs; RequestError."""
    try:
        return select_requested(host, gpus, options.request)
    except RequestError:
        named = resolve(gpus, options.request).gpus if Tracker(host).gpus.lost() else ()
        if not named:
            raise
        return [gpu for gpu in gpus if gpu in named]


def write_spec(found: FoundGpus, wanted: GenerateOptions) -> tuple[dict[str, Any], bool]:
    """Bring a generated file up to date; return its spec and whether the file had to change.

    CdiError if that fails or would overwrite a file of another program; the file is then unchanged.
    """
    spec, old, content = prepare_spec(found, wanted)
    path = wanted.path(found.host)
    if old == content:
        return spec, False
    _make_directory(os.path.dirname(path))
    try:
        # 0644, because engines of users read it too.
        replace_file(path, content, mode=0o644, durable=True)
    except FileError as error:
        is_refused = isinstance(error.__cause__, PermissionError) and os.geteuid()
        raise _cannot_write(error.message, NEEDS_ROOT if is_refused else error.hint) from error
    return spec, True


def prepare_spec(found: FoundGpus, wanted: GenerateOptions) -> tuple[dict[str, Any], bytes, bytes]:
    """Return a file's new spec, its old content, b"" for none, and its new content; CdiError."""
    spec = make_spec(found, wanted.options)
    return spec, _read_replaceable(wanted.path(found.host), wanted), format_spec(spec, wanted.language)


def refresh_specs(host: Host) -> list[Refreshed]:
    """Repeat every `amd-ctk cdi generate`, and write the files that changed; [] if it never ran.

    A spec that cannot be refreshed does not stop the others. ToolkitError if the list of specs cannot be read.
    """
    found = FoundGpus(host)
    return [_refresh(found, wanted) for wanted in read_all_generate_options(host)]


def find_generated(host: Host) -> list[str]:
    """Return the generated specs that engines read. A spec elsewhere belongs to the user who generated it."""
    outputs = [wanted.output for wanted in read_all_generate_options(host)]
    return [output for output in outputs if os.path.dirname(output) in (*SPEC_DIRECTORIES, "/var/run/cdi")]


def remove_spec(host: Host, output: str) -> bool:
    """Remove a generated spec and stop refreshing it; return False if it was not generated here. CdiError."""
    wanted = find_generate_options(host, output)
    if wanted is None:
        return False
    try:
        with suppress(FileNotFoundError):
            remove_file(wanted.path(host))
        return delete_generate_options(host, wanted.output)
    except OSError as error:
        raise CdiError(f"{output} cannot be removed: {reason(error)}") from error


def require_writable(path: str) -> None:
    """Raise CdiError if the user could not have replaced a file that happens to be up to date."""
    for needed in (path, os.path.dirname(path)):
        if not os.access(needed, os.W_OK, effective_ids=True):
            # Root has no access only if the file system is read-only.
            why = "access is refused" if os.geteuid() else "the file system is read-only"
            raise _cannot_write(f"{path} cannot be written: {why}", NEEDS_ROOT if os.geteuid() else "")


def find_hooks(host: Host) -> dict[str, list[dict[str, Any]]]:
    """Return the OCI hooks for a host's spec, by moment.

    They let the GPU Tracker see containers, and check images. While it is disabled, the only hook checks images. Where
    limits on GPU memory are required, the hook refuses containers that share a GPU.
    """
    settings = read_settings(host)
    setting, require_limit = settings.image_requirements, settings.requires_limit
    if Tracker(host).is_enabled():
        claim = claim_hook(host, image_requirements=setting, require_limit=require_limit)
        return {"createRuntime": [claim], "poststop": [release_hook(host)]}
    if require_limit:
        return {"createRuntime": [refusing_hook(host)]}
    return {} if setting == IGNORE else {"createRuntime": [requirements_hook(host, image_requirements=setting)]}


def _cannot_generate(error: ToolkitError, doing: str = "") -> CdiError:
    """Return the error for a spec that could not be made."""
    return CdiError(f"failed to generate CDI spec: {doing}{error.message}", hint=error.hint)


def _cannot_write(problem: str, hint: str = "") -> CdiError:
    """Return the error for a spec that could not be written; the old file is unchanged."""
    return CdiError(f"failed to write CDI spec: {problem}", hint=hint)


def _refresh(found: FoundGpus, wanted: GenerateOptions) -> Refreshed:
    if _is_abandoned(found.host, wanted):
        delete_generate_options(found.host, wanted.output)
        return Refreshed(output=wanted.output, forgotten=True)
    try:
        _, changed = write_spec(found, wanted)
    except ToolkitError as error:
        return Refreshed(output=wanted.output, error=error)
    return Refreshed(output=wanted.output, changed=changed)


def _is_abandoned(host: Host, wanted: GenerateOptions) -> bool:
    if wanted.output == DEFAULT_OUTPUT or wanted.output.startswith(VOLATILE):
        return False
    return not os.path.isdir(os.path.dirname(wanted.path(host)))


def _find_requested(found: FoundGpus, options: CdiOptions) -> list[Gpu]:
    try:
        # Engines use a spec for the whole host.
        require_all_gpus(found.gpus)
        gpus = found.numbered
    except ToolkitError as error:
        raise _cannot_generate(error, "getting GPUs: ") from error
    asked = select_cdi_gpus(found.host, gpus, options)
    if not asked:
        raise CdiError("failed to generate CDI spec: it would contain no GPU", hint="name GPUs, or leave out --gpus")
    return asked


def _find_groups(found: FoundGpus, asked: Sequence[Gpu]) -> dict[str, list[Gpu]]:
    """Return the valid groups of the settings, with those of their GPUs that the spec has."""
    groups = found.groups.gpus_by_name
    return {name: [gpu for gpu in members if gpu in asked] for name, members in groups.items()}


def _read_replaceable(path: str, wanted: GenerateOptions) -> bytes:
    """Return the content of a file that may be replaced, b"" if there is none; CdiError for any other file."""
    try:
        _require_plain_file(path)
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise _cannot_write(f"{path} cannot be read: {reason(error)}") from error
    _refuse_foreign(path, content, wanted)
    return content


def _require_plain_file(path: str) -> None:
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        raise _cannot_write(f"{path} is a symbolic link", f"give the file itself: {os.path.realpath(path)}")
    if stat.S_ISDIR(mode):
        raise _cannot_write(f"{path} is a directory", "give a file with --output")
    # Replacing /dev/null would break it for the whole host.
    if not stat.S_ISREG(mode):
        raise _cannot_write(f"{path} is not a plain file", "give a file with --output, or - for standard output")


def _refuse_foreign(path: str, content: bytes, wanted: GenerateOptions) -> None:
    # After a power cut, a file may be empty or contain zeros.
    if not content.strip(b"\0 \n"):
        return
    try:
        tree = parse_spec(content).tree
        kind = tree.get("kind") if isinstance(tree, dict) else None
    except SpecError:
        kind = None
    if kind != wanted.options.kind:
        holds = f"a CDI spec of {kind}" if isinstance(kind, str) else "content that is not a CDI spec"
        raise _cannot_write(f"{path} holds {holds}", "move it away, or give another file with --output")


def _make_directory(directory: str) -> None:
    try:
        make_directories(directory)
    except OSError as error:
        hint = NEEDS_ROOT if isinstance(error, PermissionError) else ""
        raise _cannot_write(f"directory {directory} cannot be made: {reason(error)}", hint) from error
