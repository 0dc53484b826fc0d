"""Docker: daemon.json."""

from __future__ import annotations

from amd_ctk.configuration.engine import Engine, EngineLayout
from amd_ctk.documents.json_document import JsonDocument

LAYOUT = EngineLayout(
    runtimes=("runtimes",),
    make_entry=lambda program: {"path": program, "runtimeArgs": []},
    program=("path",),
    default_runtime=("default-runtime",),
    cdi=("features", "cdi"),
    cdi_directories=("cdi-spec-dirs",),
)
DOCKER = Engine(
    name="docker",
    config_path="/etc/docker/daemon.json",
    read=JsonDocument,
    find_layout=lambda _: LAYOUT,
    service="docker",
    built_in=("runc", "io.containerd.runc.v2"),
    check_command=lambda file: ("dockerd", "--validate", "--config-file", file),
    file_options=("--config-file",),
    # dockerd fails with "the following directives are specified both as a flag and in the configuration file". It
    # merges only runtimes and --add-runtime.
    exclusive_options=(
        ("default-runtime", "--default-runtime"),
        ("node-generic-resources", "--node-generic-resource"),
        ("features", "--feature"),
    ),
    # dockerd 23 is the first with this flag.
    check_unknown="unknown flag: --validate",
    new_text="{}\n",
)
# The file of rootless Docker, below its user's configuration directory.
ROOTLESS_FILE = "docker/daemon.json"
# The first Docker that reads CDI specs, and the first that does so by default.
FIRST_WITH_CDI = (25,)
FIRST_WITH_CDI_ON = (28, 2)
# The first Docker whose --gpus sets AMD_VISIBLE_DEVICES, and the first whose --gpus uses a CDI device
# (https://github.com/moby/moby/pull/52048).
FIRST_WITH_GPUS = (28, 3)
FIRST_GPUS_BY_CDI = (29, 3)
# The first Compose that reads `gpus:`, and names of CDI devices below `devices:`.
FIRST_COMPOSE_WITH_GPUS = (2, 30)


def has_cdi_on(version: tuple[int, ...], setting: bool | None) -> bool:
    """Return whether this Docker accepts CDI devices; `setting` is `features.cdi` of its file, None if unset."""
    return version >= (FIRST_WITH_CDI_ON if setting is None else FIRST_WITH_CDI) and setting is not False
