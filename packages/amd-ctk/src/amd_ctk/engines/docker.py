"""Docker: daemon.json."""

from __future__ import annotations

from amd_ctk.configuration.engine import Engine, EngineLayout
from amd_ctk.documents.json_document import JsonDocument

LAYOUT = EngineLayout(
    runtimes=("runtimes",),
    entry=lambda program: {"path": program, "runtimeArgs": []},
    program=("path",),
    default_runtime=("default-runtime",),
    cdi=("features", "cdi"),
)
DOCKER = Engine(
    name="docker",
    config_path="/etc/docker/daemon.json",
    read=JsonDocument,
    find_layout=lambda _: LAYOUT,
    service="docker",
    built_in=("runc", "io.containerd.runc.v2"),
    check_command=lambda file: ("dockerd", "--validate", "--config-file", file),
    # dockerd ends with "the following directives are specified both as a flag and in the configuration file"; runtimes
    # and --add-runtime are the one pair of these that it joins.
    exclusive_options=(
        ("default-runtime", "--default-runtime"),
        ("node-generic-resources", "--node-generic-resource"),
        ("features", "--feature"),
    ),
    # dockerd 23 is the first that knows the flag.
    check_unknown="unknown flag: --validate",
    new_text="{}\n",
)
# What rootless Docker reads, below its user's settings.
ROOTLESS_FILE = "docker/daemon.json"
# The first Docker that reads CDI specs, and the first that does so unless daemon.json says otherwise.
FIRST_WITH_CDI = (25,)
FIRST_WITH_CDI_ON = (28, 2)
# The first Docker whose --gpus sets AMD_VISIBLE_DEVICES, and the first that passes a CDI device there
# (https://github.com/moby/moby/pull/52048).
FIRST_WITH_GPUS = (28, 3)
FIRST_GPUS_BY_CDI = (29, 3)
# The first Compose that reads `gpus:`, and names of CDI devices below `devices:`.
FIRST_COMPOSE_WITH_GPUS = (2, 30)


def has_cdi_on(version: tuple[int, ...], setting: bool | None) -> bool:
    """Return whether this Docker takes CDI devices; `setting` is `features.cdi` of its file, None where it has none."""
    return version >= (FIRST_WITH_CDI_ON if setting is None else FIRST_WITH_CDI) and setting is not False
