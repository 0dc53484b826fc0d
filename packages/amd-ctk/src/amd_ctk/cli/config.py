"""amd-ctk config: the administrator's settings."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from amd_ctk.cli import offers
from amd_ctk.companions import SHARING, is_installed, require
from amd_device_spec.settings import (
    ACCESS,
    AMOUNT,
    CONFIG_FILE,
    DEVICE_MODE,
    GROUPS,
    HOST_MODE,
    LOW_LEVEL_RUNTIME,
    SETTINGS,
    SICKNESS,
    SWARM_KINDS,
    USERS,
    Settings,
    SettingsError,
    check_settings,
    problem,
)
from amdgpu_discovery.command_line.context import PrintJson, announce, command_group, host_of, host_to_change
from amdgpu_discovery.command_line.edited import preview_edit
from amdgpu_discovery.command_line.plain_help import DryRun, examples
from amdgpu_discovery.host import Host

app = command_group("Settings of the toolkit")

Key = Annotated[
    str,
    typer.Argument(
        metavar="KEY", help="Name of a setting, as 'amd-ctk config show' prints it.", autocompletion=offers.settings
    ),
]


@app.command()
@examples("amd-ctk config show", "amd-ctk config show unknown-gpus")
def show(
    context: typer.Context,
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="Print only the value of this setting.", autocompletion=offers.settings)
    ] = "",
    as_json: PrintJson = False,
) -> None:
    """Show the settings and which are defaults."""
    from amd_device_spec.settings_file import is_compiled, read_settings_file
    from amd_gpu_tracker.cli import read_keys

    host = host_of(context)
    of_tracker = read_keys(host)
    if key in of_tracker:
        found = of_tracker[key]
        print(" ".join(map(str, found)) if isinstance(found, list) else found)
        return
    chosen = read_settings_file(host)
    settings = check_settings(chosen, CONFIG_FILE)
    if key:
        value = _value(settings, key)
        print(" ".join(value) if isinstance(value, tuple) else value)
    elif as_json:
        shown = {**_by_key(settings), **of_tracker}
        print(json.dumps({"path": CONFIG_FILE, "settings": shown, "chosen": sorted(chosen)}, indent=2))
    else:
        print(_format_settings(settings, chosen), end="")
        print("# Of the GPU Tracker")
        print("".join(f"{name} = {json.dumps(value)}\n" for name, value in of_tracker.items()), end="")
    if not is_compiled(host):
        print(f"{CONFIG_FILE} was changed since it was compiled; run 'sudo amd-ctk config compile'", file=sys.stderr)


@app.command("set")
@examples(
    "sudo amd-ctk config set unknown-gpus ignore",
    "sudo amd-ctk config set swarm-resources AMD_GPU",
    "sudo amd-ctk config set restart-grace 30",
    "amd-ctk config set gpu-access reserved --dry-run",
)
def set_(
    context: typer.Context,
    key: Key,
    values: Annotated[
        list[str],
        typer.Argument(metavar="VALUE...", help="New value; several for a list.", autocompletion=offers.setting_values),
    ],
    *,
    dry_run: DryRun = False,
) -> None:
    """Change a setting."""
    from amd_ctk.configuration.runtime_program import check_low_level_runtime

    if _set_in_tracker(context, key, values, dry_run=dry_run):
        return
    if key not in SETTINGS:
        _check(key, values[0])
    setting = SETTINGS[key]
    value: Any = values if setting.is_list else values[0]
    if setting.kind == SWARM_KINDS:
        value = [word for words in values for word in words.split(",") if word]
    _check(key, value)
    if key == GROUPS:
        _check_groups(values)
    if key == USERS:
        require(SHARING)
        from amd_gpu_sharing import parse_users

        parse_users(values)
    if len(values) > 1 and not setting.is_list:
        raise typer.BadParameter(f"{key} takes one value")
    if setting.kind == AMOUNT:
        value = int(value)
    if key == LOW_LEVEL_RUNTIME:
        check_low_level_runtime(values[0])
    _save(host_of(context), key, value, dry_run=dry_run)


@app.command()
@examples("sudo amd-ctk config unset unknown-gpus")
def unset(context: typer.Context, key: Key, *, dry_run: DryRun = False) -> None:
    """Reset a setting to its default."""
    if _set_in_tracker(context, key, None, dry_run=dry_run):
        return
    _save(host_of(context), key, None, dry_run=dry_run)


def _set_in_tracker(context: typer.Context, key: str, values: list[str] | None, *, dry_run: bool) -> bool:
    """Set a key of the GPU Tracker, or reset it (None); return False for another key."""
    from amd_gpu_tracker.cli import DEFAULTS, set_key

    if key not in DEFAULTS:
        return False
    host = host_of(context) if dry_run else host_to_change(context)
    set_key(host, key, DEFAULTS[key] if values is None else values, dry_run=dry_run)
    return True


@app.command("compile", hidden=True)
def compile_(context: typer.Context) -> None:
    """Compile config.toml after you edited it.

    Container starts read the compiled form, which is faster.
    """
    from amd_device_spec.settings_file import compile_settings

    if compile_settings(host_to_change(context)):
        print(f"Compiled the config file: {CONFIG_FILE}")
    else:
        print(f"There is no {CONFIG_FILE}; the defaults are used")


def _save(host: Host, key: str, value: Any, *, dry_run: bool) -> None:
    """Change a setting, or reset it (None), and print whether that changed the file."""
    from amd_device_spec.settings_file import prepare_settings, set_setting

    if key == ACCESS:
        require(SHARING)
        # It needs the tracker, which other settings do not.
        from amd_gpu_sharing import preview_access, set_access
    if key == DEVICE_MODE and value == HOST_MODE and is_installed(SHARING):
        from amd_gpu_sharing import require_open_containers

        require_open_containers(host)
    if dry_run:
        then = preview_access(host, value or "") if key == ACCESS else ""
        preview_edit(prepare_settings(host, {key: value}), then)
        return
    announce(host)
    changed = set_access(host, value or "") if key == ACCESS else set_setting(host, key, value)
    print(f"{'Updated the config file' if changed else 'The config file is up to date'}: {CONFIG_FILE}")
    if key in SICKNESS:
        from amd_ctk.gpus.listing import find_gpu_states

        # Record the states again, because container starts read the record.
        find_gpu_states(host)


def _value(settings: Settings, key: str) -> Any:
    by_key = _by_key(settings)
    if key not in by_key:
        _check(key, "")
    return by_key[key]


def _check(key: str, value: Any) -> None:
    if wrong := problem(key, value):
        raise SettingsError(wrong[0], hint=wrong[1])


def _check_groups(groups: list[str]) -> None:
    """Refuse requests that are wrong on any host; GPUs that are missing now may be there at another time."""
    from amd_ctk.gpus.gpu_groups import find_mistake

    for group in groups:
        name, _, request = group.partition("=")
        if mistake := find_mistake(request):
            raise SettingsError(
                f"the group {name}: {mistake.message}", hint=f"as in {GROUPS} {SETTINGS[GROUPS].example}"
            )


def _by_key(settings: Settings) -> dict[str, Any]:
    return {field.replace("_", "-"): value for field, value in settings.as_dict().items()}


def _format_settings(settings: Settings, chosen: dict[str, Any]) -> str:
    """Return the settings in the form of config.toml."""
    return "".join(
        f"{key} = {json.dumps(value)}{'' if key in chosen else '  # default'}\n"
        for key, value in _by_key(settings).items()
    )
