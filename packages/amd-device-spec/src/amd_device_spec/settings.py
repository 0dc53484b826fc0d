"""The administrator's settings, and a way to read them that is fast enough for container starts.

People write `config.toml`. `amd-ctk config` compiles it to flat `key=value` lines, because parsing TOML takes longer
than all else in a container start. The compiled form has the time and size of its TOML file. If these no longer match,
or if there is no compiled form, the TOML itself is read.
"""

from __future__ import annotations

import sys

from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from typing import Any

    from amdgpu_discovery.choices.rules import ChoiceRules
    from amdgpu_discovery.host import Host


CONFIG_FILE = "/etc/amd-container-toolkit/config.toml"
COMPILED_FILE = "/etc/amd-container-toolkit/config.compiled"
HEADER = "# Compiled from config.toml by amd-ctk; edit that file, or use 'amd-ctk config set'."
# Keys that take one of a few words; the first is the default.
CHOICES = {
    "unknown-gpus": ("error", "ignore"),
    "device-mode": ("open", "host"),
    "vram-limit": ("asked", "off", "required"),
    "swarm-resource-names": ("uuid", "pci"),
    "visible-devices-env": ("always", "privileged", "never"),
    "privileged-claims": ("requested", "all"),
    "slurm-filters": ("remove", "keep"),
    "image-requirements": ("enforce", "warn", "ignore"),
    "integrated-gpus": ("include", "exclude"),
    "drained-in-all": ("skip", "refuse"),
    "allow-sick-gpus": ("no", "yes"),
    "queue-order": ("fair", "fifo"),
    "job-names": ("public", "private"),
    "gpu-access": ("group", "reserved"),
    "history-names": ("names", "numbers"),
    "log-level": ("info", "debug", "warn", "error"),
}
# Keys that take resource kinds of Swarm, each with an example.
KINDS = {"swarm-resources": "AMD_GPU", "swarm-vram-resources": "VRAM"}
GROUPS = "gpu-groups"
# Users who may reserve GPUs. `amd-ctk users` writes it, and programs that give out GPUs read it; starts do not.
USERS = "users"
# Who may open the nodes of GPUs on the host; `amd-ctk config` applies it.
ACCESS = "gpu-access"
RESERVED = "reserved"
# The mode of nodes in containers.
DEVICE_MODE = "device-mode"
HOST_MODE = "host"
# A value of `job-names`.
PRIVATE = "private"
# Keys that take a list, each with an example.
LISTS = {**KINDS, GROUPS: "notebooks=0-1", USERS: "alice=1001:gpus=2"}
# Keys that take a number, each with an example, and their units.
AMOUNTS = {
    "swarm-vram-headroom": 300,
    "vram-maximum": 16384,
    "history-days": 90,
    "bad-page-limit": 64,
    "temperature-limit": 95,
}
UNITS = {
    "swarm-vram-headroom": "MiB",
    "vram-maximum": "MiB",
    "history-days": "days",
    "bad-page-limit": "pages",
    "temperature-limit": "degrees Celsius",
}
LONGEST_AMOUNT = 7
# The key that takes a length of time.
IDLE = "idle"
UNITS_OF_TIME = {"s": 1, "m": 60, "h": 3600, "d": 86400}
# Keys that define which GPUs are sick.
SICKNESS = ("allow-sick-gpus", "bad-page-limit")


class SettingsError(ToolkitError):
    """The settings cannot be read or are invalid; the defaults do not replace them."""

    exit_code = 8


class Settings(Value):
    """The settings in config.toml; docs/reference/config.md describes them.

    Attributes:
        unknown_gpus: What happens to a request for GPUs that do not exist: `error` or `ignore`.
        device_mode: Mode of GPU nodes in containers: `open` (0666) or `host`.
        low_level_runtime: Name or path of the program that creates containers; "" for runc, then crun.
        swarm_resources: Resource kinds of Swarm that name GPUs.
        swarm_resource_names: How these name GPUs: `uuid` or `pci`.
        swarm_vram_resources: Resource kinds of Swarm that count memory, in MiB.
        swarm_vram_headroom: The part of a task's memory that its fraction leaves to ROCm itself, in MiB.
        vram_limit: Whether the kernel enforces limits on GPU memory: if a container `asked`, never (`off`), or in every
            case (`required`): a container is refused if its limit cannot be enforced.
        vram_maximum: The most memory of each GPU for any container, in MiB; 0 for no limit.
        visible_devices_env: Which containers may request GPUs in their environment: `always`, `privileged` or `never`.
        privileged_claims: Which GPUs privileged containers claim from the GPU Tracker: `requested` or `all`.
        slurm_filters: What happens to ROCR_VISIBLE_DEVICES and the like of Slurm in containers: `remove` or `keep`.
        image_requirements: What happens to containers that do not meet the `AMD_REQUIRE_*` of their image: `enforce`,
            `warn` or `ignore`.
        gpu_groups: Groups of GPUs, each as `NAME=REQUEST`, for choices and CDI devices.
        integrated_gpus: Whether `all` and choices include an APU beside discrete GPUs: `include` or `exclude`.
        drained_in_all: Whether `all` leaves out drained and sick GPUs or is refused: `skip` or `refuse`.
        allow_sick_gpus: Whether requests that name sick GPUs get them: `no` or `yes`.
        bad_page_limit: How many pages of its memory may be retired before a GPU is sick; 0 for the driver's limit.
        temperature_limit: The temperature in degrees Celsius from which a GPU is suspect; 0 for the driver's limit.
        users: Users who may reserve GPUs without root, as `amd-ctk users` writes it.
        queue_order: Who is served first: `fair`, the user who used least lately, or `fifo`, who came first.
        job_names: Whether all users see the names of jobs: `public` or `private`.
        gpu_access: Who may open the nodes of GPUs on the host: their `group`, or users who have them `reserved`.
        idle: Idle time of reserved GPUs after which their owner gets a warning, as in `60m`; "" for never.
        history_days: How many days the history of reservations is kept; 0 means that there is none.
        history_names: Whether reports show people by `names` or `numbers`.
        log_level: `debug`, `info`, `warn` or `error`.
        log_file: Absolute path of the runtime's log; "" for the default.
    """

    unknown_gpus: str = "error"
    device_mode: str = "open"
    low_level_runtime: str = ""
    swarm_resources: tuple[str, ...] = ("AMD_GPU", "GPU", "GPU_COMPUTE")
    swarm_resource_names: str = "uuid"
    swarm_vram_resources: tuple[str, ...] = ()
    swarm_vram_headroom: int = 0
    vram_limit: str = "asked"
    vram_maximum: int = 0
    visible_devices_env: str = "always"
    privileged_claims: str = "requested"
    slurm_filters: str = "remove"
    image_requirements: str = "enforce"
    gpu_groups: tuple[str, ...] = ()
    integrated_gpus: str = "include"
    drained_in_all: str = "skip"
    allow_sick_gpus: str = "no"
    bad_page_limit: int = 0
    temperature_limit: int = 0
    users: tuple[str, ...] = ()
    queue_order: str = "fair"
    job_names: str = "public"
    gpu_access: str = "group"
    idle: str = ""
    history_days: int = 400
    history_names: str = "names"
    log_level: str = "info"
    log_file: str = ""

    @property
    def limits_memory(self) -> bool:
        """Return whether containers that ask for no limit on GPU memory get or need one."""
        return self.vram_maximum > 0 or self.vram_limit == "required"

    def choice_rules(self) -> ChoiceRules:
        """Return the settings for choices and for the health of GPUs."""
        # Most container starts ask for GPUs by name.
        from amdgpu_discovery.choices.rules import ChoiceRules
        from amdgpu_discovery.health.limits import HealthLimits

        return ChoiceRules(
            groups=dict(group.partition("=")[::2] for group in self.gpu_groups),
            integrated=self.integrated_gpus == "include",
            skips_drained=self.drained_in_all == "skip",
            gives_sick=self.allow_sick_gpus == "yes",
            limits=HealthLimits(bad_pages=self.bad_page_limit, temperature=self.temperature_limit),
        )


def read_settings(host: Host) -> Settings:
    """Return the settings of a host, the defaults if it has no config.toml. Raises SettingsError."""
    try:
        source = host.stat(CONFIG_FILE)
        if source is None:
            return Settings()
        compiled = host.read(COMPILED_FILE) if host.stat(COMPILED_FILE) else b""
    except OSError as error:
        raise SettingsError(f"the settings in {host.path(CONFIG_FILE)} cannot be read: {reason(error)}") from error
    # Most hosts have no config.toml; their container starts do not get here.
    values = parse_compiled(compiled, stamp(source))
    if values is not None:
        # Compiled settings were checked, so an unknown key was written by a later version, as after a roll-back. Starts
        # ignore it; 'amd-ctk config' and doctor name it.
        values = {key: value for key, value in values.items() if is_setting(key)}
    return check_settings(read_toml(host) if values is None else values, host.path(CONFIG_FILE))


def stamp(source: os.stat_result) -> str:
    """Return a text that differs for each version of a config.toml."""
    return f"{source.st_mtime_ns}.{source.st_size}"


def format_compiled(values: Mapping[str, Any], source: str) -> bytes:
    """Return the compiled form of checked settings; `source` is the stamp of their config.toml."""
    flat = {key: " ".join(value) if isinstance(value, (list, tuple)) else value for key, value in values.items()}
    lines = [HEADER, f"source={source}", *(f"{key}={value}" for key, value in flat.items())]
    return ("\n".join(lines) + "\n").encode()


def parse_compiled(content: bytes, source: str) -> dict[str, Any] | None:
    """Return the values of a compiled form; None if it was made from a config.toml with a stamp other than `source`."""
    lines = content.decode("utf-8", "replace").splitlines()
    if f"source={source}" not in lines[1:2]:
        return None
    values: dict[str, Any] = dict(line.partition("=")[::2] for line in lines[2:])
    return {key: value.split() if key in LISTS else value for key, value in values.items()}


def check_settings(values: Mapping[str, Any], where: str) -> Settings:
    """Return the settings for `values` by key; SettingsError names the key and the file `where`."""
    for key, value in values.items():
        if key_problem := problem(key, value):
            raise SettingsError(f"{where}: {key_problem[0]}", hint=key_problem[1])
    fields: dict[str, Any] = {key.replace("-", "_"): _typed(key, value) for key, value in values.items()}
    settings = Settings(**fields)
    if both := sorted(set(settings.swarm_resources) & set(settings.swarm_vram_resources)):
        raise SettingsError(
            f"{where}: {both[0]} cannot name GPUs and count VRAM at once", hint=f"see {' and '.join(KINDS)}"
        )
    return settings


def problem(key: str, value: object) -> tuple[str, str] | None:
    """Return what is wrong with a key or its value, and a hint; None if both are valid."""
    if not is_setting(key):
        return unknown_setting(key)
    if key in (GROUPS, USERS):
        return _problem_of_groups(value) if key == GROUPS else _problem_of_users(value)
    if key in KINDS or key in AMOUNTS:
        return _problem_of_kinds(key, value) if key in KINDS else _problem_of_amount(key, value)
    if not isinstance(value, str) or not value.isprintable():
        return f"{key} is not a line of text", f'as in {key} = "{default(key)}"'
    if key in CHOICES and value not in CHOICES[key]:
        return f'{key} cannot be "{value}"', f"it is one of {', '.join(CHOICES[key])}"
    return _problem_of_time(value) if key == IDLE else _problem_of_path(key, value)


def _typed(key: str, value: Any) -> Any:
    """Convert a value that `problem` accepted; the compiled form has text where config.toml has a number."""
    if key in LISTS:
        return tuple(value)
    return int(value) if key in AMOUNTS else value


def is_setting(key: str) -> bool:
    """Return whether a setting with this name exists."""
    return "_" not in key and key.replace("-", "_") in Settings._fields


def unknown_setting(key: str) -> tuple[str, str]:
    """Return the problem of a key that is no setting, and a hint: the most similar setting, if there is one."""
    from difflib import get_close_matches

    keys = [field.replace("_", "-") for field in Settings._fields]
    near = get_close_matches(key.replace("_", "-").lower(), keys, n=1, cutoff=0.5)
    return f"there is no setting {key}", f"did you mean {near[0]}?" if near else "'amd-ctk config show' lists them"


def default(key: str) -> Any:
    """Return the default of a setting."""
    return getattr(Settings(), key.replace("-", "_"))


def _problem_of_time(value: str) -> tuple[str, str] | None:
    if not value or parse_time(value):
        return None
    return f'{IDLE} is not a length of time: "{value}"', f'as in {IDLE} = "60m", or "" for never'


def parse_time(text: str) -> int:
    """Return the seconds of `90s`, `60m`, `2h` or `1d`; 0 if it is not one of these."""
    number, unit = text[:-1], text[-1:]
    is_number = number.isascii() and number.isdecimal() and len(number) <= LONGEST_AMOUNT
    return int(number) * UNITS_OF_TIME[unit] if is_number and unit in UNITS_OF_TIME else 0


def _problem_of_path(key: str, value: str) -> tuple[str, str] | None:
    if not value or value.startswith("/"):
        return None
    if key == "low-level-runtime" and "/" in value:
        # The runtime would look for it in the bundle, which is its working directory.
        return f"{key} is neither a name nor an absolute path: {value}", "as in crun, or /usr/bin/crun"
    if key == "log-file":
        return f"{key} is not an absolute path: {value}", "as in /var/log/amd-container-runtime.log"
    return None


def _problem_of_groups(value: object) -> tuple[str, str] | None:
    if not isinstance(value, (list, tuple)) or not all(isinstance(group, str) for group in value):
        return f"{GROUPS} is not a list of groups", f'as in {GROUPS} = ["{LISTS[GROUPS]}"]'
    # Most hosts have no groups.
    from amdgpu_discovery.selection import is_group_name, may_be_choice

    for group in value:
        name, _, request = group.partition("=")
        # The compiled form has all groups in one line, separated by spaces.
        if not is_group_name(name) or not request or may_be_choice(request) or len(group.split()) != 1:
            return f'{GROUPS} has "{group}", which is not NAME=GPUS', f'as in {GROUPS} = ["{LISTS[GROUPS]}"]'
    names = [group.partition("=")[0] for group in value]
    twice = next((name for name in names if names.count(name) > 1), None)
    return (f"{GROUPS} has two groups {twice}", "give each a name of its own") if twice else None


def _problem_of_users(value: object) -> tuple[str, str] | None:
    # The compiled form has all users in one line, separated by spaces.
    if isinstance(value, (list, tuple)) and all(isinstance(who, str) and len(who.split()) == 1 for who in value):
        return None
    return f"{USERS} is not a list of words", "let 'sudo amd-ctk users' write it"


def _problem_of_kinds(key: str, value: object) -> tuple[str, str] | None:
    if isinstance(value, (list, tuple)) and all(
        isinstance(kind, str) and kind.isascii() and kind.replace("_", "").replace("-", "").replace(".", "").isalnum()
        for kind in value
    ):
        return None
    return f"{key} is not a list of resource kinds", f'as in {key} = ["{KINDS[key]}"]'


def _problem_of_amount(key: str, value: object) -> tuple[str, str] | None:
    # True is an int, too.
    text = str(value) if type(value) is int else value
    if isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) <= LONGEST_AMOUNT:
        return None
    return f"{key} is not a number of {UNITS[key]}", f"as in {key} = {AMOUNTS[key]}"


def read_toml(host: Host) -> dict[str, Any]:
    """Return the unchecked content of config.toml. Raises SettingsError."""
    path = host.path(CONFIG_FILE)
    try:
        return _parse_toml(host.read(CONFIG_FILE).decode(), path)
    # tomllib recurses for each bracket.
    except (ValueError, OSError, RecursionError) as error:
        words = reason(error) if isinstance(error, OSError) else str(error)
        if isinstance(error, RecursionError):
            words = "it is nested too deeply"
        raise SettingsError(
            f"{path} cannot be read: {words}", hint="fix it, or delete it to use the defaults"
        ) from error


def _parse_toml(text: str, path: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib

        return tomllib.loads(text)
    # The old compiled settings may allow what the new file forbids, so they are no substitute.
    problem = f"{path} was changed since it was compiled, and python 3.10 cannot read it"
    raise SettingsError(problem, hint="run 'sudo amd-ctk config compile'")
