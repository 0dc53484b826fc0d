"""amd-ctk cdi: what container engines are told about GPUs."""

from __future__ import annotations

import sys
from enum import Enum
from typing import Annotated, Any

import typer

from amd_ctk.cdi.listing import format_json, format_list
from amd_ctk.cdi.recipe import DEFAULT_OUTPUT, Recipe, name_output, remember
from amd_ctk.cli.context import host_of
from amd_ctk.cli.group import command_group
from amd_ctk.cli.listing import find_listed_gpus
from amd_device_spec import cdi_names
from amd_device_spec.cdi import CdiOptions
from amd_device_spec.cdi_text import format_spec, language_of
from amd_device_spec.cdi_version import engines_without
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host

app = command_group("Container Device Interface related commands")

STANDARD_OUTPUT = "-"


class Language(str, Enum):
    """The languages of CDI specs."""

    JSON = "json"
    YAML = "yaml"


class NameStrategy(str, Enum):
    """Which names a GPU has in a spec beside its number."""

    INDEX = cdi_names.INDEX_NAMES
    UUID = cdi_names.UUID_NAMES
    PCI = cdi_names.PCI_NAMES
    ALL = cdi_names.ALL_NAMES


@app.command("generate")
def generate(
    context: typer.Context,
    *,
    output: Annotated[str, typer.Option(help="Full path of output file, - for standard output.")] = DEFAULT_OUTPUT,
    language: Annotated[
        Language | None, typer.Option("--format", help="Language of the file; by default as its name ends.")
    ] = None,
    name_strategy: Annotated[
        NameStrategy, typer.Option("--device-name-strategy", help="Names of GPUs beside their numbers.")
    ] = NameStrategy.ALL,
    no_all: Annotated[bool, typer.Option("--no-all", help="Offer no device that stands for all GPUs.")] = False,
    gpus: Annotated[str, typer.Option(help="Which GPUs, as in AMD_VISIBLE_DEVICES.")] = cdi_names.ALL,
    vendor: Annotated[str, typer.Option(help="Vendor of the devices.")] = cdi_names.VENDOR,
    device_class: Annotated[str, typer.Option("--class", help="Class of the devices.")] = cdi_names.DEVICE_CLASS,
    annotations: Annotated[bool, typer.Option("--annotations", help="Say what each GPU is; needs CDI 0.6.0.")] = False,
    additional_gids: Annotated[
        bool, typer.Option("--additional-gids", help="Add the groups of the nodes; needs CDI 0.7.0.")
    ] = False,
    spec_version: Annotated[str, typer.Option(help="Version of CDI; by default the lowest that will do.")] = "",
) -> None:
    """Generate the CDI spec for GPUs."""
    from amd_ctk.cdi.specs import make_spec, write_spec

    host = host_of(context)
    options = CdiOptions(
        vendor=vendor,
        device_class=device_class,
        name_strategy=name_strategy.value,
        with_all=not no_all,
        request=gpus,
        annotations=annotations,
        additional_gids=additional_gids,
        spec_version=spec_version,
    )
    if output == STANDARD_OUTPUT:
        spec = make_spec(host, options)
        sys.stdout.write(format_spec(spec, language.value if language else "json").decode())
    else:
        chosen = language.value if language else language_of(output)
        recipe = Recipe(output=name_output(host, output), language=chosen, options=options)
        spec, _ = write_spec(host, recipe)
        print(f"Generated CDI spec: {output or DEFAULT_OUTPUT}")
        _remember(host, recipe)
    _tell_who_cannot_read(spec)


@app.command("list")
def list_devices(
    context: typer.Context, as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False
) -> None:
    """List the available AMD GPU devices."""
    host = host_of(context)
    gpus = find_listed_gpus(host)
    print(format_json(host, gpus) if as_json else format_list(host, gpus))


def _remember(host: Host, recipe: Recipe) -> None:
    try:
        remember(host, recipe)
    except ToolkitError as error:
        print(f"'amd-ctk cdi refresh' will not update it, because {error.message}", file=sys.stderr)


def _tell_who_cannot_read(spec: dict[str, Any]) -> None:
    if engines := engines_without(spec["cdiVersion"]):
        print(
            f"It is of CDI {spec['cdiVersion']}, which these engines cannot read: {', '.join(engines)}", file=sys.stderr
        )
