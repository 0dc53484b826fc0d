"""Describes AMD GPUs to container engines: as CDI specs, and as edits to OCI runtime specs.

    from amd_device_spec import CdiOptions, build_cdi_spec
    from amdgpu_discovery import Host, find_device_nodes, find_gpus

    gpus = find_gpus(Host())
    spec = build_cdi_spec(gpus, find_device_nodes(Host(), gpus), CdiOptions())

The functions take GPUs and return JSON-like values. They write nothing. The names on this page stay the same from one
version to the next. The modules behind them may change.
"""

from __future__ import annotations

from amdgpu_discovery import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_device_spec.cdi.spec import CdiOptions as CdiOptions
    from amd_device_spec.cdi.spec import build_cdi_spec as build_cdi_spec
    from amd_device_spec.cdi.text import format_spec as format_spec
    from amd_device_spec.cdi.text import parse_spec as parse_spec
    from amd_device_spec.cdi.validate import Problem as Problem
    from amd_device_spec.cdi.validate import form_problems as form_problems
    from amd_device_spec.cdi.validate_host import host_problems as host_problems
    from amd_device_spec.oci import Edits as Edits
    from amd_device_spec.oci import build_edits as build_edits
    from amd_device_spec.oci_annotation import apply_edits as apply_edits
    from amd_device_spec.oci_annotation import remove_edits as remove_edits
    from amd_device_spec.request import GpuRequest as GpuRequest
    from amd_device_spec.request import requested_gpus as requested_gpus
    from amd_device_spec.settings import Settings as Settings
    from amd_device_spec.settings import SettingsError as SettingsError
    from amd_device_spec.settings import read_settings as read_settings
    from amd_device_spec.start.plan import StartPlan as StartPlan
    from amd_device_spec.start.plan import decide_grant as decide_grant
    from amd_device_spec.start.plan import plan_start as plan_start
    from amdgpu_discovery.choices.oci_spec import Grant as Grant
    from amdgpu_discovery.errors import SpecError as SpecError

_MODULE_BY_NAME = {
    "CdiOptions": "cdi.spec",
    "build_cdi_spec": "cdi.spec",
    "format_spec": "cdi.text",
    "parse_spec": "cdi.text",
    "form_problems": "cdi.validate",
    "host_problems": "cdi.validate_host",
    "Problem": "cdi.validate",
    "Edits": "oci",
    "build_edits": "oci",
    "apply_edits": "oci_annotation",
    "remove_edits": "oci_annotation",
    "GpuRequest": "request",
    "requested_gpus": "request",
    "Grant": "start.plan",
    "StartPlan": "start.plan",
    "plan_start": "start.plan",
    "decide_grant": "start.plan",
    "Settings": "settings",
    "read_settings": "settings",
    "SettingsError": "settings",
    "SpecError": "oci",
}
__all__ = list(_MODULE_BY_NAME)

__getattr__ = lazy_exports(__name__, _MODULE_BY_NAME)
