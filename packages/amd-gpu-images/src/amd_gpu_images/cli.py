"""The commands of amd-gpu-images, which `amd-ctk image` offers too: on what images run, and which fits this host."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from amdgpu_discovery.command_line.context import PrintJson, command_group, host_of
from amdgpu_discovery.command_line.plain_help import examples
from amdgpu_discovery.command_line.standard_output import print_notes
from amdgpu_discovery.untrusted.plain_text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from amd_gpu_images.check import ImageVerdict, JudgedImage
    from amd_gpu_images.content.contents import Image
    from amd_gpu_images.reference import Reference
    from amdgpu_discovery.host import Host
    from amdgpu_discovery.requirements.facts import ContainerFacts

HELP = "Check whether images fit; pick one"
app = command_group(HELP)

FORMS = "NAME, docker://NAME, docker:NAME, podman:NAME, oci:DIR[:TAG], docker-archive:FILE or dir:PATH."
Deep = Annotated[bool, typer.Option("--deep", help="Also look into programs and libraries, not only at file names.")]
Gpus = Annotated[str, typer.Option(metavar="GPUS", help="Which GPUs the container gets, as in AMD_VISIBLE_DEVICES.")]
ForTarget = Annotated[
    str, typer.Option("--for", metavar="TARGET", help="Check for a GPU of this target, such as gfx942.")
]
INDEXES = "A name in a registry, oci:DIR[:TAG], or the file of an index."
# The files that notes name.
MOST_PATHS = 8
DEEP_HINT = "--deep looks into programs and libraries"
DECLARES_ITS_USE = "says what it is for"
MOST_TEXT = 16 * 1024 * 1024


@app.command("targets")
@examples("amd-ctk image targets rocm/pytorch")
def targets(
    images: Annotated[list[str], typer.Argument(metavar="IMAGE...", help=FORMS)],
    *,
    deep: Deep = False,
    as_json: PrintJson = False,
) -> None:
    """Show the GPU targets that images have code for."""
    from amd_gpu_images.content.contents import targets_of, unreadable_in
    from amd_gpu_images.reference import find_image, parse_reference

    printed: list[dict[str, object]] = []
    for reference in map(find_image, [parse_reference(text) for text in images]):
        layers = _read(reference, deep=deep).layers
        found, unreadable = targets_of(layers), unreadable_in(layers)
        printed.append({"image": str(reference), "targets": found, "unreadable": unreadable})
        if not as_json:
            nothing = "no code for a GPU was found" if deep else f"no file name names a target ({DEEP_HINT})"
            print(f"{reference}: {' '.join(found) or nothing}", flush=True)
            print_notes(_unreadable_notes(unreadable))
    if as_json:
        _print_json({"images": printed})


@app.command("check")
@examples("amd-ctk image check rocm/pytorch", "amd-ctk image check oci:image --for gfx942")
def check(
    context: typer.Context,
    image: Annotated[str, typer.Argument(metavar="IMAGE", help=FORMS)],
    *,
    gpus: Gpus = "all",
    target: ForTarget = "",
    deep: Deep = False,
    as_json: PrintJson = False,
) -> None:
    """Check whether an image fits this host.

    With --for, it is checked for a GPU that need not be here. Exits with 0 if the image fits, 1 if it does not, and 2
    if that is unknown: the image says nothing about it or cannot be read, or there is no driver.
    """
    from amd_gpu_images.content.contents import targets_of, unreadable_in
    from amd_gpu_images.reference import REGISTRY, find_image, parse_reference

    judge = _find_judge(host_of(context), gpus, target)
    reference = find_image(parse_reference(image))
    # Layers in a registry must be downloaded, so what the image says about itself is read first.
    found = _read(reference, deep=deep, with_layers=deep or reference.transport != REGISTRY)
    verdict = judge(found)
    if not (verdict.is_known or deep) and reference.transport == REGISTRY:
        found = _read(reference, deep=deep)
        verdict = judge(found)
    notes = [*_unreadable_notes(unreadable_in(found.layers)), *verdict.notes]
    fits = not verdict.reasons if verdict.reasons or verdict.is_known else None
    if as_json:
        shown = {"image": str(reference), "fits": fits, "targets": targets_of(found.layers)}
        _print_json({**shown, "reasons": list(verdict.reasons), "notes": notes})
    else:
        print_notes(notes)
        _print_verdict(verdict.reasons, is_known=verdict.is_known, deep=deep)
    raise typer.Exit({True: 0, False: 1, None: 2}[fits])


@app.command("pick")
@examples("amd-ctk image pick registry.example/app:1.0", "amd-ctk image pick oci:images")
def pick(
    context: typer.Context,
    index: Annotated[str, typer.Argument(metavar="INDEX", help=INDEXES)] = "",
    *,
    gpus: Gpus = "all",
    as_json: PrintJson = False,
) -> None:
    """Print the image that fits this host best.

    Standard error lists why the others do not fit. Exits with 1 if none fits, and with 2 if there is nothing to
    compare.
    """
    from amd_gpu_images.bounds import ImageError
    from amd_gpu_images.check import best, read_host

    if not index:
        raise ImageError("there is nothing to pick from", hint="give INDEX, such as registry.example/app:1.0")
    candidates = _judge_index(index, read_host(host_of(context), gpus))
    chosen = best(candidates)
    is_known = any(each.is_known for each in candidates)
    if as_json:
        images = [{"image": each.name, "fits": not each.reason, "reason": each.reason} for each in candidates]
        _print_json({"picked": chosen.name if chosen else None, "images": images})
    else:
        print_notes(f"{each.name}: {each.reason}" for each in candidates if each.reason)
        if chosen:
            print(printable(chosen.name))
        else:
            print_notes([f"none of {len(candidates)} images {'fits' if is_known else DECLARES_ITS_USE}"])
    if not chosen:
        raise typer.Exit(1 if is_known else 2)


@app.command("index")
@examples("amd-ctk image index reg/app:1 --from reg/app:1-a --from reg/app:1-b")
def index(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name in a registry that the images share.")],
    *,
    images: Annotated[list[str], typer.Option("--from", metavar="IMAGE", help="One of the images; repeat it.")],
    deep: Deep = False,
) -> None:
    """Join images in a registry under one name.

    Writes an OCI index that says what each image is for: its targets and its AMD_REQUIRE_*. 'amd-ctk image pick' then
    finds the one for a host.
    """
    from amd_gpu_images.bounds import Reading
    from amd_gpu_images.registries.registry_index import parse_index_name, read_entries, write_index

    shared = parse_index_name(name)
    with Reading(deep=deep) as reading:
        entries = read_entries(images, reading)
    for text, entry in zip(images, entries, strict=True):
        print_notes([" ".join([f"{text}:", *(f"{key}={value}" for key, value in entry.annotations.items())])])
    print(write_index(shared, entries))


@app.command("serve", hidden=True)
def serve(context: typer.Context, port: Annotated[int, typer.Argument(metavar="PORT")]) -> None:
    """Answer pulls for the registry that images.toml names for a port of loopback."""
    from amd_gpu_images.proxy.serve import serve as answer

    answer(host_of(context), port)


def _print_json(printed: dict[str, object]) -> None:
    import json

    print(json.dumps(printed, indent=2))


def _print_verdict(reasons: Sequence[str], *, is_known: bool, deep: bool) -> None:
    for reason in reasons:
        print(f"does not fit: {printable(reason)}")
    if not reasons:
        found = "the image has no code for a GPU" if deep else f"no file name in the image names a target ({DEEP_HINT})"
        print("fits" if is_known else f"not known: {found}, and it does not say what it is for")


def _unreadable_notes(paths: Sequence[str]) -> list[str]:
    """Return notes about programs whose code cannot be read, with the names of a few."""
    more = [f"{len(paths) - MOST_PATHS} more files have such code"] if len(paths) > MOST_PATHS else []
    return [f"{path}: compressed bundle: targets unknown" for path in paths[:MOST_PATHS]] + more


def _find_judge(host: Host, gpus: str, target: str) -> Callable[[Image], ImageVerdict]:
    """Return the function that judges an image, for GPUs of this host or for a target; ImageError."""
    from amd_gpu_images.bounds import ImageError
    from amd_gpu_images.check import judge_for_target, judge_image, parse_target, read_host

    if not target:
        return lambda image: judge_image(image, read_host(host, gpus, image.environment))
    if gpus != "all":
        raise ImageError("--gpus names GPUs of this host, which --for does not ask", hint="leave one of them out")
    name = parse_target(target)
    return lambda image: judge_for_target(image, name)


def _read(reference: Reference, *, deep: bool, with_layers: bool = True) -> Image:
    from amd_gpu_images.bounds import Reading
    from amd_gpu_images.reference import read_image

    with Reading(deep=deep) as reading:
        return read_image(reference, reading, with_layers=with_layers)


def _judge_index(index: str, facts: ContainerFacts) -> list[JudgedImage]:
    from amd_gpu_images.bounds import ImageError
    from amd_gpu_images.check import judge_entries

    images = _read_index(index)
    if not images:
        raise ImageError(f"{index} has no image for amd64")
    return judge_entries(images, facts)


def _read_index(index: str) -> list[tuple[str, Image]]:
    from amd_gpu_images.archives.oci_layout import parse_entries, read_entries
    from amd_gpu_images.content.configuration import parse_document
    from amd_gpu_images.reference import REGISTRY
    from amd_gpu_images.registries.registry import read_registry_entries
    from amd_gpu_images.registries.registry_name import is_registry_name

    if index.startswith("oci:"):
        return read_entries(index.removeprefix("oci:"))
    # A file that does not exist is a mistyped name, and not an image in a registry.
    is_file = index.endswith(".json") or os.path.lexists(index)
    if index.startswith(REGISTRY) or (is_registry_name(index) and not is_file):
        return read_registry_entries(index.removeprefix(REGISTRY))
    return parse_entries(parse_document(_read_text(index).encode(), index), index)


def _read_text(path: str) -> str:
    from amd_gpu_images.bounds import ImageError
    from amd_gpu_images.registries.registry_name import without_login
    from amdgpu_discovery.command_line.parameters import read_input
    from amdgpu_discovery.errors import reason

    try:
        content = read_input(path, MOST_TEXT)
    except OSError as error:
        raise ImageError(f"{without_login(path)} cannot be read: {reason(error)}") from error
    if len(content) > MOST_TEXT:
        raise ImageError(f"{path} is larger than 16 MiB")
    return content.decode("utf-8", "replace")


def main() -> None:
    """Run amd-gpu-images, and end the process."""
    from amdgpu_discovery.command_line.program import run_program

    run_program(make_app)


def make_app() -> typer.Typer:
    """Return the commands of amd-gpu-images when it runs without amd-ctk."""
    from amdgpu_discovery.command_line.program import add_commands, make_program

    program = make_program("amd-gpu-images", HELP)
    add_commands(program, app, written="amd-ctk image")
    return program
