"""One run of `swarm setup`: Docker's configuration, and what the toolkit's settings and the tracker need for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from amd_ctk.configuration.apply import apply, find_target, prepare, preview
from amd_ctk.configuration.edit import Edit, EngineEdit
from amd_ctk.configuration.engine import ask_for_restart
from amd_ctk.configuration.ledger import Changes, Record
from amd_ctk.configuration.runtime_program import find_runtime_program
from amd_ctk.engines.docker import DOCKER, LAYOUT
from amd_ctk.swarm.advertisement import declare, undeclare
from amd_ctk.swarm.node_settings import (
    find_obstacles,
    plan_setup,
    read_added_resources,
    read_given_budget,
    read_node_settings,
    take_setup_back,
)
from amd_ctk.swarm.resources import Resource, ResourcePlan, gpus_named_by
from amd_device_spec.request import VRAM_KIND
from amd_device_spec.settings import CONFIG_FILE
from amdgpu_discovery.command_line.context import announce
from amdgpu_discovery.command_line.document import Document
from amdgpu_discovery.command_line.edited import print_difference, print_preview, print_written
from amdgpu_discovery.gpu import Gpu
from amdgpu_discovery.host import Host

RUNTIME_HINT = (
    "install it, or name it in 'sudo amd-ctk runtime configure --set-as-default"
    " --runtime-path=/opt/bin/amd-container-runtime'"
)
STILL_DEFAULT = "amd is still the default runtime; to remove it as well:\nsudo amd-ctk runtime configure --remove"


class NodeSetup:
    """The setup of a node for a swarm. `enable_tracker` is called before GPU memory or models are advertised."""

    def __init__(
        self,
        host: Host,
        config_path: str,
        enable_tracker: Callable[[], object],
        *,
        dry_run: bool,
        show_diff: bool,
        validate: bool,
    ) -> None:
        self._host = host
        self._target = find_target(host, DOCKER, config_path)
        self._enable_tracker = enable_tracker
        self._dry_run = dry_run
        self._show_diff = show_diff
        self._validate = validate

    def advertise(
        self, gpus: Sequence[Gpu], plan: ResourcePlan, resources: list[Resource], *, set_as_default: bool
    ) -> None:
        """Advertise these resources, and prepare the runtime and the tracker for them."""
        program = ""
        if set_as_default:
            program = find_runtime_program(sys.argv[0], os.environ.get("PATH", ""), usual_hint=RUNTIME_HINT)
        budget = self._find_given_budget(gpus, plan)
        edit = plan_setup([] if budget else resources, gpus, default_program=program)

        def prepare_host() -> None:
            # Without the tracker, Swarm would give these GPUs and this memory out twice.
            if plan.vram_kind or plan.also_by_model:
                self._enable_tracker()
            _report_settings(changed=declare(self._host, budget or resources, plan))

        edited = self._edit(edit, adds=True, before_saving=prepare_host)
        for obstacle in find_obstacles(read_node_settings(self._target, edited.new)):
            print(obstacle, file=sys.stderr)

    def _find_given_budget(self, gpus: Sequence[Gpu], plan: ResourcePlan) -> list[Resource]:
        """Return the GPU resources on the daemon's command line if GPU memory is among them, and print that memory."""
        if not plan.vram_kind or plan.vram_mib:
            return []
        given, unit = read_given_budget(self._target, plan.vram_kind)
        for resource in given:
            if resource.kind == plan.vram_kind:
                print(f"{unit} advertises {resource}, which is the budget of this node", file=sys.stderr)
        return [each for each in given if each.kind == plan.vram_kind or gpus_named_by(each, gpus)]

    def withdraw_all(self) -> None:
        """Stop advertising what `swarm setup` advertised, and remove the runtime that it added."""
        kinds: set[str] = set()

        def edit(document: Document, changes: Changes) -> tuple[Document, Changes]:
            kinds.update(resource.kind for resource in read_added_resources(changes))
            if not kinds:
                kinds.update(resource.kind for resource in read_given_budget(self._target, VRAM_KIND)[0])
            return take_setup_back(document, changes)

        edited = self._edit(
            edit, adds=False, before_saving=lambda: _report_settings(changed=undeclare(self._host, kinds))
        )
        if not self._dry_run and self._has_default(edited):
            print(STILL_DEFAULT)

    def _has_default(self, edited: EngineEdit) -> bool:
        """Return whether amd is the default runtime because `runtime configure` made it so."""
        change = edited.record.changes.find(LAYOUT.default_runtime)
        engine = self._target.engine
        return change is not None and engine.read(edited.new or engine.new_text).get(change.path) == change.value

    def _edit(self, edit: Edit, *, adds: bool, before_saving: Callable[[], None]) -> EngineEdit:
        """Edit Docker's configuration, or show the change; return the edit."""

        def prepare_change(record: Record) -> EngineEdit:
            return prepare(self._target, edit, record, validate=self._validate, adds=adds)

        if self._dry_run:
            edited = preview(self._target, prepare_change, os.environ)
            print_preview(edited, show_diff=self._show_diff)
            return edited
        announce(self._host)
        edited = apply(self._target, prepare_change, os.environ, before_saving=before_saving)
        if self._show_diff:
            print_difference(edited)
        print_written(edited)
        ask_for_restart(self._target.engine, is_changed=edited.changed)
        return edited


def _report_settings(*, changed: bool) -> None:
    if changed:
        print(f"Updated the config file: {CONFIG_FILE}", flush=True)
