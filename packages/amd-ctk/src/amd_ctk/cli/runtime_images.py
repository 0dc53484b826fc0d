"""amd-ctk runtime configure --images: the proxy in the place of registries."""

from __future__ import annotations

import os

from amd_ctk.cli.edited import print_difference, print_preview, print_written, up_to_date

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.configuration.apply import Target
    from amd_ctk.configuration.edit import Edit, Edited
    from amd_ctk.configuration.ledger import Record
    from amd_ctk.configuration.plan import ConfigureOptions
    from amdgpu_discovery.host import Host

# Docker has no such file; its users pull from the proxy's address.
WITH_IMAGES = ("podman", "containerd")


def configure_images(host: Host, engine: str, options: ConfigureOptions, *, is_quiet: bool = False) -> None:
    """Edit the files of an engine, or show what that would do; `is_quiet` where there may be nothing to do."""
    from amd_ctk.image_proxy.engines import plan_images

    takes_out = options.remove or options.undo
    edits = [_change(target, edit, options) for target, edit in plan_images(host, engine, os.environ, remove=takes_out)]
    for edited in edits:
        if edited.changed or not is_quiet:
            _show(edited, options)
    if any(edited.changed for edited in edits) and not (options.dry_run or takes_out):
        _ask_for_sockets(host)


def _show(edited: Edited, options: ConfigureOptions) -> None:
    if options.dry_run:
        print_preview(edited, show_diff=options.show_diff, unchanged=lambda: print(up_to_date(edited)))
        return
    if options.show_diff:
        print_difference(edited)
    print_written(edited)


def _ask_for_sockets(host: Host) -> None:
    from amd_ctk.image_proxy.upstreams import read_upstreams

    units = " ".join(f"amd-ctk-images@{upstream.port}.socket" for upstream in read_upstreams(host))
    print(f"Please run: sudo systemctl enable --now {units}")


def _change(target: Target, edit: Edit, options: ConfigureOptions) -> Edited:
    from amd_ctk.configuration.apply import apply, prepare, preview
    from amd_ctk.configuration.edit import prepare_undo

    def prepare_change(record: Record) -> Edited:
        if options.undo:
            return prepare_undo(target.file, record)
        # Engines check no file of this kind.
        return prepare(target, edit, record, validate=False, adds=False)

    return (preview if options.dry_run else apply)(target, prepare_change, os.environ)
