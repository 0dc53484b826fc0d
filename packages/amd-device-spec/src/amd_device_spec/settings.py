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
IDLE = "idle"
LOW_LEVEL_RUNTIME = "low-level-runtime"
# Keys that define which GPUs are sick.
SICKNESS = ("allow-sick-gpus", "allow-dirty-gpus", "bad-page-limit")
MOST_SETTING_DIGITS = 7
UNITS_OF_TIME = {"s": 1, "m": 60, "h": 3600, "d": 86400}

# Kinds of settings.
WORD = "one of a few words"
PROGRAM = "the name or path of a program"
PATH = "a path"
TIME = "a length of time"
AMOUNT = "a number"
SWARM_KINDS = "resource kinds of Swarm"
GROUP_LIST = "groups of GPUs"
USER_LIST = "users"
LISTS = (SWARM_KINDS, GROUP_LIST, USER_LIST)


class SettingsError(ToolkitError):
    """The settings cannot be read or are invalid; the defaults do not replace them."""

    exit_code = 8


class Setting:
    """A setting: its kind, its default, the words that it takes or the unit of its number, and an example."""

    def __init__(
        self, kind: str, default: Any, *, choices: tuple[str, ...] = (), unit: str = "", example: str | int = ""
    ) -> None:
        self.kind = kind
        self.default = default
        self.choices = choices
        self.unit = unit
        self.example = example

    def __get__(self, _: object, owner: type) -> Any:
        # A value without this field asks its class for the default.
        return self.default

    @property
    def is_list(self) -> bool:
        """Return whether the setting takes several values."""
        return self.kind in LISTS


# The type of a field is that of its value.
setting: Any = Setting


class Settings(Value):
    """The settings in config.toml. docs/reference/config.md describes them, and begins with this table.

    Python drops the text below each field, so container starts do not load it.
    """

    unknown_gpus: str = setting(WORD, "error", choices=("error", "ignore"))
    """What happens to a request for GPUs that do not exist."""
    device_mode: str = setting(WORD, "open", choices=("open", "host"))
    """Mode of GPU nodes in containers: 0666, or that of the host."""
    low_level_runtime: str = setting(PROGRAM, "", example="/usr/bin/crun")
    """Name or path of the program that creates containers. Empty for runc, then crun."""
    swarm_resources: tuple[str, ...] = setting(SWARM_KINDS, ("AMD_GPU", "GPU", "GPU_COMPUTE"), example="AMD_GPU")
    """Resource kinds of Swarm that name GPUs."""
    swarm_resource_names: str = setting(WORD, "uuid", choices=("uuid", "pci"))
    """How Swarm's resources name GPUs: by their unique ids or their PCI addresses."""
    swarm_vram_resources: tuple[str, ...] = setting(SWARM_KINDS, (), example="VRAM")
    """Resource kinds of Swarm that count memory, in MiB."""
    swarm_vram_headroom: int = setting(AMOUNT, 0, unit="MiB", example=300)
    """The part of a task's memory that its fraction leaves to ROCm itself."""
    vram_limit: str = setting(WORD, "asked", choices=("asked", "off", "required"))
    """Whether the kernel enforces limits on GPU memory: if a container asks for one, never, or in every case."""
    vram_maximum: int = setting(AMOUNT, 0, unit="MiB", example=16384)
    """The most memory of each GPU for any container; 0 for no limit."""
    share_by_vram: str = setting(WORD, "no", choices=("no", "yes"))
    """Whether jobs with `--vram` share exclusive GPUs among themselves."""
    visible_devices_env: str = setting(WORD, "always", choices=("always", "privileged", "never"))
    """Which containers may request GPUs in their environment."""
    privileged_claims: str = setting(WORD, "requested", choices=("requested", "all"))
    """Which GPUs privileged containers claim from the GPU Tracker."""
    slurm_filters: str = setting(WORD, "remove", choices=("remove", "keep"))
    """What happens to ROCR_VISIBLE_DEVICES and the like of Slurm in containers."""
    image_requirements: str = setting(WORD, "enforce", choices=("enforce", "warn", "ignore"))
    """What happens to containers that do not meet the `AMD_REQUIRE_*` of their image."""
    gpu_groups: tuple[str, ...] = setting(GROUP_LIST, (), example="notebooks=0-1")
    """Groups of GPUs, each as `NAME=REQUEST`, for choices and CDI devices."""
    integrated_gpus: str = setting(WORD, "include", choices=("include", "exclude"))
    """Whether `all` and choices include an APU beside discrete GPUs."""
    drained_in_all: str = setting(WORD, "skip", choices=("skip", "refuse"))
    """Whether `all` leaves out drained, sick and dirty GPUs, or is refused."""
    allow_sick_gpus: str = setting(WORD, "no", choices=("no", "yes"))
    """Whether requests that name sick GPUs get them."""
    allow_dirty_gpus: str = setting(WORD, "no", choices=("no", "yes"))
    """Whether GPUs are given out on which an ended job has left a process or another partition mode."""
    clean: str = setting(WORD, "no", choices=("no", "auto"))
    """Whether the service ends the processes that an ended job has left on its GPUs."""
    bad_page_limit: int = setting(AMOUNT, 0, unit="pages", example=64)
    """How many pages of its memory may be retired before a GPU is sick; 0 for the driver's limit."""
    temperature_limit: int = setting(AMOUNT, 0, unit="degrees Celsius", example=95)
    """The temperature from which a GPU is suspect; 0 for the driver's limit."""
    users: tuple[str, ...] = setting(USER_LIST, (), example="alice=1001:gpus=2")
    """Users who may reserve GPUs without root, as `amd-ctk users` writes it."""
    queue_order: str = setting(WORD, "fair", choices=("fair", "fifo"))
    """Who is served first: the user who used least lately, or who came first."""
    job_names: str = setting(WORD, "public", choices=("public", "private"))
    """Whether all users see the names of jobs."""
    gpu_access: str = setting(WORD, "group", choices=("group", "reserved"))
    """Who may open the nodes of GPUs on the host: their group, or users who have them reserved."""
    idle: str = setting(TIME, "", example="60m")
    """Idle time of reserved GPUs after which their owner gets a warning. Empty for never."""
    history_days: int = setting(AMOUNT, 400, unit="days", example=90)
    """How long the history of reservations is kept; 0 means that there is none."""
    history_names: str = setting(WORD, "names", choices=("names", "numbers"))
    """How reports show people: by their names or their numbers."""
    log_level: str = setting(WORD, "info", choices=("info", "debug", "warn", "error"))
    """The lowest level in the runtime's log."""
    log_file: str = setting(PATH, "", example="/var/log/amd-container-runtime.log")
    """Absolute path of the runtime's log. Empty for the default."""

    @property
    def limits_memory(self) -> bool:
        """Return whether containers that ask for no limit on GPU memory get or need one."""
        return self.vram_maximum > 0 or self.requires_limit

    @property
    def requires_limit(self) -> bool:
        """Return whether every container needs a limit on GPU memory that the kernel enforces."""
        return self.vram_limit == "required"

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
            gives_dirty=self.allow_dirty_gpus == "yes",
            shares_by_vram=self.share_by_vram == "yes",
            limits=HealthLimits(bad_pages=self.bad_page_limit, temperature=self.temperature_limit),
        )


# The settings by their keys in config.toml.
SETTINGS = {name.replace("_", "-"): row for name, row in vars(Settings).items() if isinstance(row, Setting)}


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
    return {key: value.split() if key in SETTINGS and SETTINGS[key].is_list else value for key, value in values.items()}


def check_settings(values: Mapping[str, Any], where: str) -> Settings:
    """Return the settings for `values` by key; SettingsError names the key and the file `where`."""
    for key, value in values.items():
        if key_problem := problem(key, value):
            raise SettingsError(f"{where}: {key_problem[0]}", hint=key_problem[1])
    fields: dict[str, Any] = {key.replace("-", "_"): _typed(key, value) for key, value in values.items()}
    settings = Settings(**fields)
    if both := sorted(set(settings.swarm_resources) & set(settings.swarm_vram_resources)):
        raise SettingsError(
            f"{where}: {both[0]} cannot name GPUs and count VRAM at once",
            hint="see swarm-resources and swarm-vram-resources",
        )
    return settings


def problem(key: str, value: object) -> tuple[str, str] | None:
    """Return what is wrong with a key or its value, and a hint; None if both are valid."""
    row = SETTINGS.get(key)
    return PROBLEM_BY_KIND[row.kind](key, row, value) if row else unknown_setting(key)


def _typed(key: str, value: Any) -> Any:
    """Convert a value that `problem` accepted; the compiled form has text where config.toml has a number."""
    row = SETTINGS[key]
    if row.is_list:
        return tuple(value)
    return int(value) if row.kind == AMOUNT else value


def is_setting(key: str) -> bool:
    """Return whether a setting with this name exists."""
    return key in SETTINGS


def unknown_setting(key: str) -> tuple[str, str]:
    """Return the problem of a key that is no setting, and a hint: the most similar setting, if there is one."""
    from difflib import get_close_matches

    near = get_close_matches(key.replace("_", "-").lower(), SETTINGS, n=1, cutoff=0.5)
    return f"there is no setting {key}", f"did you mean {near[0]}?" if near else "'amd-ctk config show' lists them"


def _problem_of_text(key: str, row: Setting, value: object) -> tuple[str, str] | None:
    if isinstance(value, str) and value.isprintable():
        return None
    return f"{key} is not a line of text", f'as in {key} = "{row.default}"'


def _problem_of_word(key: str, row: Setting, value: object) -> tuple[str, str] | None:
    if value in row.choices:
        return None
    not_text = _problem_of_text(key, row, value)
    return not_text or (f'{key} cannot be "{value}"', f"it is one of {', '.join(row.choices)}")


def _problem_of_time(key: str, row: Setting, value: Any) -> tuple[str, str] | None:
    if not_text := _problem_of_text(key, row, value):
        return not_text
    if not value or parse_time(value):
        return None
    return f'{key} is not a length of time: "{value}"', f'as in {key} = "{row.example}", or "" for never'


def parse_time(text: str) -> int:
    """Return the seconds of `90s`, `60m`, `2h` or `1d`; 0 if it is not one of these."""
    number, unit = text[:-1], text[-1:]
    is_number = number.isascii() and number.isdecimal() and len(number) <= MOST_SETTING_DIGITS
    return int(number) * UNITS_OF_TIME[unit] if is_number and unit in UNITS_OF_TIME else 0


def _problem_of_program(key: str, row: Setting, value: Any) -> tuple[str, str] | None:
    if not_text := _problem_of_text(key, row, value):
        return not_text
    # The runtime would look for a relative path in the bundle, which is its working directory.
    if value.startswith("/") or "/" not in value:
        return None
    return f"{key} is neither a name nor an absolute path: {value}", f"as in crun, or {row.example}"


def _problem_of_path(key: str, row: Setting, value: Any) -> tuple[str, str] | None:
    if not_text := _problem_of_text(key, row, value):
        return not_text
    if not value or value.startswith("/"):
        return None
    return f"{key} is not an absolute path: {value}", f"as in {row.example}"


def _problem_of_groups(key: str, row: Setting, value: object) -> tuple[str, str] | None:
    example = f'as in {key} = ["{row.example}"]'
    if not isinstance(value, (list, tuple)) or not all(isinstance(group, str) for group in value):
        return f"{key} is not a list of groups", example
    # Most hosts have no groups.
    from amdgpu_discovery.choices.selection import is_group_name, may_be_choice

    for group in value:
        name, _, request = group.partition("=")
        # The compiled form has all groups in one line, separated by spaces.
        if not is_group_name(name) or not request or may_be_choice(request) or len(group.split()) != 1:
            return f'{key} has "{group}", which is not NAME=GPUS', example
    names = [group.partition("=")[0] for group in value]
    twice = next((name for name in names if names.count(name) > 1), None)
    return (f"{key} has two groups {twice}", "give each a name of its own") if twice else None


def _problem_of_users(key: str, _: Setting, value: object) -> tuple[str, str] | None:
    # The compiled form has all users in one line, separated by spaces.
    if isinstance(value, (list, tuple)) and all(isinstance(who, str) and len(who.split()) == 1 for who in value):
        return None
    return f"{key} is not a list of words", "let 'sudo amd-ctk users' write it"


def _problem_of_kinds(key: str, row: Setting, value: object) -> tuple[str, str] | None:
    if isinstance(value, (list, tuple)) and all(
        isinstance(kind, str) and kind.isascii() and kind.replace("_", "").replace("-", "").replace(".", "").isalnum()
        for kind in value
    ):
        return None
    return f"{key} is not a list of resource kinds", f'as in {key} = ["{row.example}"]'


def _problem_of_amount(key: str, row: Setting, value: object) -> tuple[str, str] | None:
    # True is an int, too.
    text = str(value) if type(value) is int else value
    if isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) <= MOST_SETTING_DIGITS:
        return None
    return f"{key} is not a number of {row.unit}", f"as in {key} = {row.example}"


PROBLEM_BY_KIND = {
    WORD: _problem_of_word,
    PROGRAM: _problem_of_program,
    PATH: _problem_of_path,
    TIME: _problem_of_time,
    AMOUNT: _problem_of_amount,
    SWARM_KINDS: _problem_of_kinds,
    GROUP_LIST: _problem_of_groups,
    USER_LIST: _problem_of_users,
}


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
