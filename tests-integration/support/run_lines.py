"""Random command lines of `docker run` and `podman run` with options that decide about GPUs, from a seed."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

PLAIN_IMAGE = "busybox:local"
# An image with the environment IMAGE_VARIABLES and a user `gpuuser` in its group `render`.
IMAGE = "gpu-image:local"
IMAGE_VARIABLES = ("AMD_VISIBLE_DEVICES=2", "HIP_VISIBLE_DEVICES=0", "AMD_LABEL=image")
ENV_FILE = "/box/variables"
ENV_FILE_TEXT = "# ours\nAMD_VISIBLE_DEVICES=3\nAMD_CALLER\n\n  ROCR_VISIBLE_DEVICES=0\n"
NAME_OF_TWO_FILES = (
    '{"cdiVersion":"0.5.0","kind":"example.com/twice","devices":[{"name":"0","containerEdits":{"env":["A=1"]}}]}'
)
CALLER = {"AMD_VISIBLE_DEVICES": "1", "AMD_CALLER": "yes", "HIP_VISIBLE_DEVICES": "1"}

VARIABLES = (
    *(
        "-eAMD_VISIBLE_DEVICES=0",
        "--env=AMD_VISIBLE_DEVICES=all",
        "-e AMD_VISIBLE_DEVICES=1,3",
        "-e AMD_VISIBLE_DEVICES",
    ),
    *(
        "-e AMD_VISIBLE_DEVICES=9",
        "--env AMD_VISIBLE_DEVICES=none",
        "-e HIP_VISIBLE_DEVICES",
        "-e HIP_VISIBLE_DEVICES=",
    ),
    *("--env-file=/box/variables", "-e AMD_LABEL", "-e ROCR_VISIBLE_DEVICES=0", "-e AMD_VISIBLE_DEVICES="),
)
PODMAN_VARIABLES = (
    *("--unsetenv=AMD_VISIBLE_DEVICES", "--unsetenv HIP_VISIBLE_DEVICES", "--unsetenv-all", "--env-host", "-e AMD_*"),
    *("-e *", "--env=HIP_*"),
)
DEVICES = (
    *(
        "--device=/dev/kfd",
        "--device /dev/dri",
        "--device=/dev/dri/",
        "--device=/dev/dri/renderD128",
        "--device=/dev/kfd",
    ),
    *("--device=/dev/dri/renderD128:/dev/dri/renderD128:rw", "--device=/dev/dri/renderD129:/dev/gpu:r"),
    *("--device=/dev/dri/renderD130:rw", "--device=/dev/dri/renderD131:/dev/gpu1", "--device=/dev/dri:/dev/gpus:rw"),
    *("--device=/dev/dri/:/dev/gpus/", "--device=/dev/dri/renderD200", "--device=/dev/kfd:/dev/kfd:m"),
)
CDI = ("--device=amd.com/gpu=0", "--device amd.com/gpu=all", "--device=amd.com/gpu=9", "--device=example.com/twice=0")
RULES = (
    *("--device-cgroup-rule=c 226:* rwm", "--device-cgroup-rule=c 226:128 rw", "--device-cgroup-rule=a *:* rwm"),
    *("--device-cgroup-rule=c *:129 r", "--device-cgroup-rule=b 226:1 rw", "--device-cgroup-rule=c 10:200 rwm"),
)
GPUS = ("--gpus=all", "--gpus 1", "--gpus=0")
USERS = (
    "--user=1000",
    "-u 1000:44",
    "--user=root",
    "--user=0:0",
    "-u1000",
    "--group-add=44",
    "--group-add 110",
    "--group-add=0",
)
PRIVILEGES = ("--privileged", "--privileged=true", "--privileged=false", "--cap-add=SYS_ADMIN", "--cap-add=ALL")


class Line(NamedTuple):
    """The arguments of an engine's program, and whether it uses amd-container-runtime and the caller's variables."""

    with_runtime: bool
    words: tuple[str, ...]
    with_caller: bool


def make_lines(seed: int, count: int, *, is_podman: bool) -> list[Line]:
    """Return command lines; the same seed gives the same ones."""
    rng = Random(seed)
    return [_make_line(rng, is_podman=is_podman) for _ in range(count)]


def _make_line(rng: Random, *, is_podman: bool) -> Line:
    options = [
        *_some(rng, VARIABLES + (PODMAN_VARIABLES if is_podman else ()), most=3),
        *_some(rng, DEVICES + CDI, most=2),
        *_some(rng, RULES, most=1),
        *(_some(rng, GPUS, most=1) if rng.random() < 0.1 else ()),
        *_some(rng, USERS, most=2),
        *(_some(rng, PRIVILEGES, most=1) if rng.random() < 0.3 else ()),
    ]
    rng.shuffle(options)
    # A value of --device-cgroup-rule contains spaces.
    words = (word for option in options for word in ([option] if "rule" in option else option.split(" ")))
    image = rng.choice((IMAGE, IMAGE, PLAIN_IMAGE))
    return Line(rng.random() < 0.7, (*words, image, "true"), rng.random() < 0.5)


def _some(rng: Random, options: tuple[str, ...], *, most: int) -> list[str]:
    return rng.sample(options, rng.randint(0, most))
