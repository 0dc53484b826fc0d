"""amd-ctk cdi: CDI specs for container engines."""

from __future__ import annotations

import os
import sys
from enum import Enum
from typing import Annotated, Any

import typer

from amd_ctk.cdi.generate_options import (
    DEFAULT_OUTPUT,
    CdiError,
    GenerateOptions,
    find_generate_options,
    name_output,
    save_generate_options,
)
from amd_ctk.cdi.listing import print_list
from amd_device_spec import cdi as cdi_names
from amd_device_spec.cdi.spec import CdiOptions
from amd_device_spec.cdi.text import format_spec, language_of
from amd_device_spec.cdi.version import engines_without
from amdgpu_discovery.command_line.completion import complete_gpus
from amdgpu_discovery.command_line.context import PrintJson, announce, command_group, host_of, host_to_change, seconds
from amdgpu_discovery.command_line.plain_help import NOTHING_CHANGED, DryRun, examples
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.cdi.specs import FoundGpus

# LXD 6.7 generates a spec there whenever an instance with an AMD GPU starts, and reads it once.
LXD_DIRECTORIES = ("/var/log/lxd/", "/var/lib/lxd/", "/var/snap/lxd/")

app = command_group("Container Device Interface related commands")

STANDARD_OUTPUT = "-"
UP_TO_DATE = "CDI spec is up to date"


class Language(str, Enum):
    """The file formats of CDI specs."""

    JSON = "json"
    YAML = "yaml"


class NameStrategy(str, Enum):
    """Which names a GPU has in a spec beside its number."""

    INDEX = cdi_names.INDEX_NAMES
    UUID = cdi_names.UUID_NAMES
    PCI = cdi_names.PCI_NAMES
    ALL = cdi_names.ALL_NAMES


@app.command("generate")
@examples(
    "sudo amd-ctk cdi generate",
    "amd-ctk cdi generate --output=-",
    "amd-ctk cdi generate --by-model --dry-run",
    "sudo amd-ctk cdi generate --output=/etc/cdi/lab.json --vendor=lab.example",
)
def generate(
    context: typer.Context,
    *,
    output: Annotated[
        str, typer.Option(metavar="FILE", help="Full path of output file, - for standard output.")
    ] = DEFAULT_OUTPUT,
    language: Annotated[
        Language | None, typer.Option("--format", help="File format. Default: by the file's extension.")
    ] = None,
    name_strategy: Annotated[
        NameStrategy, typer.Option("--device-name-strategy", help="Device names in addition to the GPU numbers.")
    ] = NameStrategy.ALL,
    no_all: Annotated[bool, typer.Option("--no-all", help="Leave out the device 'all'.")] = False,
    gpus: Annotated[
        str, typer.Option(metavar="GPUS", help="Which GPUs, as in AMD_VISIBLE_DEVICES.", autocompletion=complete_gpus)
    ] = cdi_names.ALL,
    vendor: Annotated[str, typer.Option(metavar="VENDOR", help="Vendor of the devices.")] = cdi_names.VENDOR,
    device_class: Annotated[
        str, typer.Option("--class", metavar="CLASS", help="Class of the devices.")
    ] = cdi_names.DEVICE_CLASS,
    annotations: Annotated[bool, typer.Option("--annotations", help="Describe each GPU (CDI 0.6.0).")] = False,
    additional_gids: Annotated[
        bool, typer.Option("--additional-gids", help="Add the groups of the device nodes (CDI 0.7.0).")
    ] = False,
    by_model: Annotated[
        bool,
        typer.Option("--by-model", help="Also name all GPUs of a model (MI210) and of a target (gfx90a)."),
    ] = False,
    spec_version: Annotated[
        str, typer.Option(metavar="VERSION", help="CDI version. Default: the lowest one the spec needs.")
    ] = "",
    dry_run: DryRun = False,
) -> None:
    """Generate the CDI spec for GPUs.

    The hook of the spec refuses images that require other GPUs. For a host without the toolkit, first set
    image-requirements to "ignore".
    """
    from amd_ctk.cdi.specs import FoundGpus, make_spec

    host = host_of(context)
    found = FoundGpus(host)
    options = CdiOptions(
        vendor=vendor,
        device_class=device_class,
        name_strategy=name_strategy.value,
        with_all=not no_all,
        request=gpus,
        annotations=annotations,
        additional_gids=additional_gids,
        by_model=by_model,
        spec_version=spec_version,
    )
    if output == STANDARD_OUTPUT:
        spec = make_spec(found, options)
        print(format_spec(spec, language.value if language else "json").decode(), end="")
    else:
        chosen = language.value if language else language_of(output)
        wanted = GenerateOptions(output=name_output(host, output), language=chosen, options=options)
        spec = _preview(found, wanted) if dry_run else _write(found, wanted, output or DEFAULT_OUTPUT)
        _warn_of_directories(host, wanted.output)
    _warn_of_old_engines(spec)
    warn_of_groups(found)


def _warn_of_directories(host: Host, output: str) -> None:
    """Name the engines whose settings leave out the directory of a spec."""
    from amd_ctk.cdi.directory_settings import may_name_directories

    if not may_name_directories(host):
        return
    from amd_ctk.cdi.engine_directories import find_own_directories, normalized

    (directory,) = normalized([os.path.dirname(output)]) or ("/",)
    for engine, directories in find_own_directories(host):
        if directory not in directories:
            where = " and ".join(directories) or "no directory"
            print(f"{engine} reads CDI specs in {where} only, and not {output}", file=sys.stderr)


@app.command("validate")
@examples("amd-ctk cdi validate", "amd-ctk cdi validate --path=/etc/cdi/lab.json --vendor=lab.example")
def validate(
    context: typer.Context,
    *,
    path: Annotated[str, typer.Option(metavar="FILE", help="Full path of the CDI spec file.")] = DEFAULT_OUTPUT,
    vendor: Annotated[str, typer.Option(metavar="VENDOR", help="Vendor the devices should have.")] = cdi_names.VENDOR,
    device_class: Annotated[
        str, typer.Option("--class", metavar="CLASS", help="Class the devices should have.")
    ] = cdi_names.DEVICE_CLASS,
    form_only: Annotated[
        bool, typer.Option("--form-only", help="Check the form only, not whether the spec matches this machine.")
    ] = False,
) -> None:
    """Validate the CDI spec for GPUs."""
    from amd_ctk.cdi.validation import find_problems

    host = host_of(context)
    output = name_output(host, path)
    wanted = find_generate_options(host, output)
    options = wanted.options if wanted else CdiOptions(vendor=vendor, device_class=device_class)
    print(f"Validating CDI spec: {path or DEFAULT_OUTPUT}", flush=True)
    problems = find_problems(host, host.path(output), options, form_only=form_only)
    if problems:
        print("\n".join([*problems, "CDI spec is invalid", "Please regenerate CDI spec"]))
        raise typer.Exit(1)
    print("CDI spec is valid")


@app.command("list")
@examples("amd-ctk cdi list", "amd-ctk cdi list --specs --json")
def list_devices(
    context: typer.Context,
    *,
    specs: Annotated[bool, typer.Option("--specs", help="List the devices of the spec files on this host.")] = False,
    as_json: PrintJson = False,
) -> None:
    """List the available AMD GPU devices."""
    host = host_of(context)
    if specs:
        from amd_ctk.cdi.engine_devices import format_devices, format_devices_as_json, read_spec_files

        files = read_spec_files(host)
        print(format_devices_as_json(files) if as_json else format_devices(files))
        return
    print_list(host, as_json=as_json)


@app.command("refresh")
@examples("sudo amd-ctk cdi refresh")
def refresh(context: typer.Context) -> None:
    """Update the generated CDI specs."""
    if not refresh_and_report(host_to_change(context)):
        raise typer.Exit(1)


@app.command("watch")
@examples("sudo amd-ctk cdi watch", "sudo amd-ctk cdi watch --interval=30")
def watch(
    context: typer.Context,
    *,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", parser=seconds, help="Time between two checks of the GPUs.")
    ] = 5.0,
) -> None:
    """Keep generated CDI specs up to date until stopped."""
    import signal

    from amd_ctk.cdi.watch import find_waiting
    from amd_ctk.cdi.watch import watch as watch_gpus

    # A service manager stops a service with SIGTERM. That is not a failure.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    host = host_to_change(context)
    wait, obstacle = find_waiting(host)
    if obstacle:
        print(f"GPUs are checked only every {interval:g} seconds, because {obstacle}", file=sys.stderr, flush=True)
    watch_gpus(host, lambda: refresh_and_report(host), wait=wait, interval=interval)


@app.command("remove")
@examples("sudo amd-ctk cdi remove", "sudo amd-ctk cdi remove --all")
def remove(
    context: typer.Context,
    *,
    output: Annotated[str, typer.Option(metavar="FILE", help="Full path of the file.")] = DEFAULT_OUTPUT,
    every: Annotated[bool, typer.Option("--all", help="Remove every generated CDI spec that engines read.")] = False,
) -> None:
    """Remove a generated spec and stop refreshing it."""
    from amd_ctk.cdi.specs import find_generated, remove_spec

    host = host_to_change(context)
    if every:
        for path in find_generated(host):
            remove_spec(host, path)
            print(f"Removed CDI spec: {path}")
    elif remove_spec(host, name_output(host, output)):
        print(f"Removed CDI spec: {output}")
    else:
        raise CdiError(f"{output} was not generated by 'amd-ctk cdi generate'", hint="remove it yourself")


def refresh_and_report(host: Host) -> bool:
    """Refresh the generated specs of a host and print the result for each; return whether all are up to date."""
    from amd_ctk.cdi.specs import FoundGpus, refresh_specs

    refreshed = refresh_specs(host)
    if not refreshed:
        print("No CDI spec has been generated, so there is nothing to refresh", flush=True)
    elif not any(spec.error for spec in refreshed):
        warn_of_groups(FoundGpus(host))
    for spec in refreshed:
        if spec.error:
            print(spec.error, file=sys.stderr, flush=True)
        elif spec.forgotten:
            print(f"No longer refreshed, because its directory is gone: {spec.output}", flush=True)
        else:
            print(f"{'Generated CDI spec' if spec.changed else UP_TO_DATE}: {spec.output}", flush=True)
    return not any(spec.error for spec in refreshed)


def warn_of_groups(found: FoundGpus) -> None:
    """Print which groups of the settings are no devices of the specs, and why."""
    for problem in found.groups.problem_by_name.values():
        print(f"a group of the settings is not a CDI device: {problem}", file=sys.stderr, flush=True)


def _preview(found: FoundGpus, wanted: GenerateOptions) -> dict[str, Any]:
    """Print what generating a spec would change in its file, and return the spec."""
    from amd_ctk.cdi.specs import prepare_spec
    from amdgpu_discovery.command_line.edited import ConfigFile, FileEdit, print_preview

    spec, old, new = prepare_spec(found, wanted)
    file = ConfigFile(path=wanted.path(found.host), shown=wanted.output)
    edited = FileEdit(file=file, old=old.decode(errors="replace"), new=new.decode())
    print_preview(edited, show_diff=True, unchanged=lambda: print(f"{UP_TO_DATE}: {wanted.output}"))
    return spec


def _write(found: FoundGpus, wanted: GenerateOptions, shown: str) -> dict[str, Any]:
    from amd_ctk.cdi.specs import require_writable, write_spec

    announce(found.host)
    spec, changed = write_spec(found, wanted)
    if not changed:
        require_writable(wanted.path(found.host))
    # The same line in both cases, because programs may look for it.
    print(f"Generated CDI spec: {shown}")
    if not changed:
        print(f"{NOTHING_CHANGED}: {UP_TO_DATE}", file=sys.stderr)
    _save_options(found.host, wanted)
    return spec


def _save_options(host: Host, wanted: GenerateOptions) -> None:
    if wanted.output.startswith(LXD_DIRECTORIES):
        return
    try:
        save_generate_options(host, wanted)
    except ToolkitError as error:
        print(f"'amd-ctk cdi refresh' will not update it, because {error.message}", file=sys.stderr)


def _warn_of_old_engines(spec: dict[str, Any]) -> None:
    if engines := engines_without(spec["cdiVersion"]):
        print(f"These engines cannot read CDI {spec['cdiVersion']}: {', '.join(engines)}", file=sys.stderr)
