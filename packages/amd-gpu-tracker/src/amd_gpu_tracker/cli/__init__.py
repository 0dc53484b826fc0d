"""The commands `amd-gpu-tracker ...`, which `amd-ctk` offers as `amd-ctk gpu-tracker ...`: a file for each."""

from __future__ import annotations

from amdgpu_discovery import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_gpu_tracker.cli.accessibility import print_change as print_change
    from amd_gpu_tracker.cli.context import CommandProgram as CommandProgram
    from amd_gpu_tracker.cli.context import in_brackets as in_brackets
    from amd_gpu_tracker.cli.keys import DEFAULTS as DEFAULTS
    from amd_gpu_tracker.cli.keys import HOLDER as HOLDER
    from amd_gpu_tracker.cli.keys import HOLDERS as HOLDERS
    from amd_gpu_tracker.cli.keys import read_keys as read_keys
    from amd_gpu_tracker.cli.keys import set_key as set_key
    from amd_gpu_tracker.cli.program import main as main
    from amd_gpu_tracker.cli.program import make_app as make_app
    from amd_gpu_tracker.cli.program import make_group as make_group
    from amd_gpu_tracker.cli.program import run_command_line as run_command_line
    from amd_gpu_tracker.cli.switch import enable_tracker as enable_tracker
    from amd_gpu_tracker.cli.usage import ShowPeaks as ShowPeaks
    from amd_gpu_tracker.cli.usage import ShowUsage as ShowUsage
    from amd_gpu_tracker.cli.usage import show_metrics as show_metrics
    from amd_gpu_tracker.cli.usage import show_usage as show_usage

_MODULE_BY_NAME = {
    "print_change": "accessibility",
    "CommandProgram": "context",
    "in_brackets": "context",
    "DEFAULTS": "keys",
    "HOLDER": "keys",
    "HOLDERS": "keys",
    "read_keys": "keys",
    "set_key": "keys",
    "main": "program",
    "make_app": "program",
    "make_group": "program",
    "run_command_line": "program",
    "enable_tracker": "switch",
    "ShowPeaks": "usage",
    "ShowUsage": "usage",
    "show_metrics": "usage",
    "show_usage": "usage",
}

__getattr__ = lazy_exports(__name__, _MODULE_BY_NAME)
