"""Tests of CDI in engines: functions from an engine to an answer, which is "yes" if everything works."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.seen import parse_seen

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import CompletedProcess
    from typing import Any

    from support.box import Box
    from support.cdi_engines import ContainerdInBox, DockerInBox, PodmanInBox

    Engine = DockerInBox | PodmanInBox | ContainerdInBox
    Question = Callable[[Engine], str]

# Options of `amd-ctk cdi generate` for each spec. An engine that refuses one spec still reads the others.
OPTIONS_BY_VENDOR = {
    "amd.com": (),
    "annotations.example": ("--annotations",),
    "groups.example": ("--additional-gids",),
    "hooks.example": (),
    "yaml.example": ("--format=yaml",),
}
HOOK = "/usr/local/bin/record-hook"
HOOK_PROGRAM = b'#!/bin/sh\necho "$1" >>/tmp/hooks-that-ran\nchmod 666 /tmp/hooks-that-ran\n'

KFD = ("/dev/kfd", "510:0")
GPU_0 = [KFD, ("/dev/dri/card3", "226:3"), ("/dev/dri/renderD130", "226:130")]
ALL_GPUS = [
    KFD,
    *((f"/dev/dri/card{number}", f"226:{number}") for number in (1, 2, 3, 4)),
    *((f"/dev/dri/renderD{number}", f"226:{number}") for number in (128, 129, 130, 131)),
]
NOT_ROOT = "--user=1000:1000"
GPU_0_NODES = ("/dev/kfd", "/dev/dri/card3", "/dev/dri/renderD130")


def put_specs(box: Box, generate: Callable[..., bytes]) -> None:
    """Put the specs of all tests, and the hook that one of them names, where engines in a box find them."""
    specs = {vendor: generate(f"--vendor={vendor}", *options) for vendor, options in OPTIONS_BY_VENDOR.items()}
    specs["hooks.example"] = _add_hooks(json.loads(specs["hooks.example"]))
    for vendor, text in specs.items():
        box.write(f"/etc/cdi/{vendor}.{'yaml' if vendor == 'yaml.example' else 'json'}", text)
    box.write(HOOK, HOOK_PROGRAM)
    box("chmod", "755", HOOK)


def _add_hooks(spec: dict[str, Any]) -> bytes:
    hooks = [{"hookName": name, "path": HOOK, "args": ["hook", name]} for name in ("createRuntime", "poststop")]
    return json.dumps({**spec, "containerEdits": {"hooks": hooks}}).encode()


def by_number(engine: Engine) -> str:
    return _gives(engine.run("amd.com/gpu=0", "list-gpus"), GPU_0)


def by_all(engine: Engine) -> str:
    return _gives(engine.run("amd.com/gpu=all", "list-gpus"), ALL_GPUS)


def by_unique_id(engine: Engine) -> str:
    return _gives(engine.run("amd.com/gpu=0xEA35F57CC80DEB35", "list-gpus"), GPU_0)


def by_pci_address(engine: Engine) -> str:
    return _gives(engine.run("amd.com/gpu=0000:03:00.0", "list-gpus"), GPU_0)


def an_unknown_gpu_is_refused(engine: Engine) -> str:
    return "no" if engine.run("amd.com/gpu=4", "true").returncode == 0 else "yes"


def other_gpus_are_refused(engine: Engine) -> str:
    """Test whether root in the container can make and open the node of a GPU that it was not given."""
    mknod = "--cap-add=CAP_MKNOD"
    seen = parse_seen(engine.run("amd.com/gpu=0", "try-numbers", "226:130", "226:128", options=(mknod,)).stdout)
    return "yes" if [node.access for node in seen] == ["opens", "refused-by-cgroup"] else "no"


def a_user_opens_them(engine: Engine) -> str:
    return _opens(engine.run("amd.com/gpu=0", "try-nodes", *GPU_0_NODES, options=(NOT_ROOT,)))


def a_user_opens_them_in_exec(engine: Engine) -> str:
    return _opens(engine.run_and_exec("amd.com/gpu=0", "try-nodes", *GPU_0_NODES, options=(NOT_ROOT,)))


def root_opens_them(engine: Engine) -> str:
    return _opens(engine.run("amd.com/gpu=0", "try-nodes", "/dev/kfd"))


def open_nodes_are_opened(engine: Engine) -> str:
    """Test a host whose nodes have mode 0666, as in some distributions."""
    nodes = [path for path, _ in ALL_GPUS]
    engine.box("chmod", "666", *nodes)
    try:
        return _opens(engine.run("amd.com/gpu=0", "try-nodes", *GPU_0_NODES))
    finally:
        engine.box("chmod", "660", *nodes)


def kept_groups_open_them(engine: Engine) -> str:
    return _opens(engine.run("amd.com/gpu=0", "try-nodes", "/dev/kfd", options=("--group-add=keep-groups",)))


def yaml_is_read(engine: Engine) -> str:
    return _gives(engine.run("yaml.example/gpu=0", "list-gpus"), GPU_0)


def annotations_are_read(engine: Engine) -> str:
    return _gives(engine.run("annotations.example/gpu=0", "list-gpus"), GPU_0)


def groups_are_added(engine: Engine) -> str:
    ended = engine.run("groups.example/gpu=0", "id", "-G", options=(NOT_ROOT,))
    if ended.returncode:
        return _refused(ended)
    return "yes" if {"44", "110"} <= set(ended.stdout.split()) else "read, groups lost"


def hooks_run(engine: Engine) -> str:
    engine.box("rm", "-f", "/tmp/hooks-that-ran")
    ran = engine.run("hooks.example/gpu=0", "true").returncode == 0
    recorded = engine.box("cat", "/tmp/hooks-that-ran", check=False).stdout.split()
    return "yes" if ran and recorded == ["createRuntime", "poststop"] else "no"


def gpus_option_with_driver(engine: DockerInBox) -> str:
    return _gives(engine.run_with_gpus('driver=cdi,"device=amd.com/gpu=0"', "list-gpus"), GPU_0)


def gpus_option_alone(engine: DockerInBox) -> str:
    return _gives(engine.run_with_gpus("all", "list-gpus"), ALL_GPUS)


# In the order of the table.
COMMON_QUESTIONS: dict[str, Question] = {
    "`--device amd.com/gpu=0`": by_number,
    "`--device amd.com/gpu=all`": by_all,
    "`--device amd.com/gpu=0xEA35F57CC80DEB35`": by_unique_id,
    "`--device amd.com/gpu=0000:03:00.0`": by_pci_address,
    "a GPU that does not exist is refused": an_unknown_gpu_is_refused,
    "a spec in YAML": yaml_is_read,
    "`--annotations` (CDI 0.6.0)": annotations_are_read,
    "`--additional-gids` (CDI 0.7.0)": groups_are_added,
    "hooks of a spec run": hooks_run,
}
ROOTFUL_QUESTIONS: dict[str, Question] = {
    "the container's cgroup refuses other GPUs": other_gpus_are_refused,
    "a user who is not root opens its GPUs": a_user_opens_them,
    "the same in `exec`": a_user_opens_them_in_exec,
}
ROOTLESS_QUESTIONS: dict[str, Question] = {
    "host nodes 0660 `root:render`: opens": root_opens_them,
    "the same with `--group-add keep-groups` and crun": kept_groups_open_them,
    "host nodes 0666: opens": open_nodes_are_opened,
}
DOCKER_QUESTIONS: dict[str, Callable[[DockerInBox], str]] = {
    "`--gpus 'driver=cdi,\"device=amd.com/gpu=0\"'`": gpus_option_with_driver,
    "`--gpus all` through CDI": gpus_option_alone,
}


def _gives(ended: CompletedProcess[str], nodes: list[tuple[str, str]]) -> str:
    if ended.returncode:
        return _refused(ended)
    if [(node.path, node.numbers) for node in parse_seen(ended.stdout)] == nodes:
        return "yes"
    # pytest shows this for an unexpected answer.
    print(ended.stdout, ended.stderr)
    return "other nodes"


def _refused(ended: CompletedProcess[str]) -> str:
    # pytest shows this for an unexpected answer.
    print(ended.stderr)
    return "no"


def _opens(ended: CompletedProcess[str]) -> str:
    if ended.returncode:
        return _refused(ended)
    access = {node.access for node in parse_seen(ended.stdout)}
    return "yes" if access == {"opens"} else " and ".join(sorted(access - {"opens"}))
