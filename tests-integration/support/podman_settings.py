"""Commands of Podman on hosts whose configuration files add devices and variables to each container."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from support.run_lines import IMAGE, IMAGE_VARIABLES, PLAIN_IMAGE

if TYPE_CHECKING:
    from support.box import Box

NODES = 'devices = ["/dev/kfd", "/dev/dri/renderD129"]'
# The files that are read one after another.
FILES = ("/etc/containers/containers.conf.d/91-box.conf", "/etc/containers/containers.conf.d/92-box.conf")
TEXTS = (
    (NODES, ""),
    (f'{NODES}\nenv = ["HIP_VISIBLE_DEVICES=0", "AMD_VISIBLE_DEVICES=2"]', ""),
    (NODES, 'devices = ["/dev/dri/renderD130:/dev/dri/renderD128:r"]'),
    (NODES, "devices = []"),
    (NODES, 'devices = ["/dev/dri/renderD130", {append = true}]'),
    (NODES, 'devices = ["/dev/dri/renderD130", {append = false}]'),
    ('env = ["AMD_VISIBLE_DEVICES=1"]', 'env = ["HIP_VISIBLE_DEVICES=0", {append = true}]'),
    ('env = ["AMD_VISIBLE_DEVICES=1"]', 'env = ["HIP_VISIBLE_DEVICES=0"]'),
    ('devices = ["amd.com/gpu=0"]', ""),
    ('devices = ["amd.com/gpu=9"]', ""),
)
# The variables of each image.
IMAGES: dict[str, tuple[str, ...]] = {PLAIN_IMAGE: (), IMAGE: IMAGE_VARIABLES}
WORDS = (
    (),
    ("--device=/dev/dri/renderD131",),
    ("-e", "AMD_VISIBLE_DEVICES=3"),
    ("--unsetenv-all", "-e", "HIP_VISIBLE_DEVICES=1"),
    ("--unsetenv=AMD_VISIBLE_DEVICES",),
)


class SettingsLine(NamedTuple):
    """A command, and the texts of FILES."""

    texts: tuple[str, ...]
    words: tuple[str, ...]
    image: str
    with_runtime: bool


LINES = [
    SettingsLine(texts, words, image, with_runtime)
    for texts in TEXTS
    for words in WORDS
    for image in IMAGES
    for with_runtime in (False, True)
]


def file_text(text: str) -> str:
    """Return a whole configuration file."""
    return f"[containers]\n{text}\n"


# Containers that Podman makes without `podman run`: for Docker's client, and of a pod's file.
SERVICE, POD = "service", "pod"
SOCKET = "unix:///run/podman/podman.sock"
OTHER_WORDS: tuple[tuple[str, ...], ...] = ((), ("-e", "AMD_VISIBLE_DEVICES=3"))


class OtherLine(NamedTuple):
    """A container that is not of `podman run`, and the texts of FILES."""

    way: str
    texts: tuple[str, ...]
    words: tuple[str, ...]
    image: str


OTHER_LINES = [
    OtherLine(way, texts, words, image)
    for way in (SERVICE, POD)
    for texts in TEXTS
    for words in OTHER_WORDS
    for image in IMAGES
]


def pod_text(line: OtherLine) -> str:
    """Return the file of a pod whose container is as `docker run` with these words makes one."""
    variables = [dict(zip(("name", "value"), word.split("="), strict=True)) for word in line.words if "=" in word]
    container = {"name": "main", "image": line.image, "imagePullPolicy": "Never", "env": variables}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    return json.dumps(pod)


def ask_podman(box: Box, words: list[str], line: OtherLine) -> tuple[dict[str, Any] | None, str]:
    """Return the config.json of a container, None if there is none, and what was printed. `words` call Podman."""
    for path, text in zip(FILES, line.texts, strict=True):
        box.write(path, file_text(text).encode())
    box("rm", "-f", "/box/recorded.json")
    printed = _serve(box, words, line) if line.way == SERVICE else _play(box, words, line)
    spec = box("cat", "/box/recorded.json", check=False).stdout
    return (json.loads(spec) if spec else None), printed


def _serve(box: Box, words: list[str], line: OtherLine) -> str:
    script = (
        'mkdir -p /run/podman; "$@" system service --time=0 "$0" >/box/service.log 2>&1 & service=$!;'
        " for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do"
        ' docker -H "$0" version >/dev/null 2>&1 && break; kill -0 $service || break; sleep 0.5; done;'
        ' timeout 60 docker -H "$0" run --rm --network=none $WORDS 2>&1; kill $service; wait; cat /box/service.log'
    )
    asked = f"WORDS={' '.join((*line.words, line.image, 'true'))}"
    return box("env", asked, "sh", "-c", script, SOCKET, *words, check=False).stdout


def _play(box: Box, words: list[str], line: OtherLine) -> str:
    box.write("/box/pod.json", pod_text(line).encode())
    ended = box("timeout", "60", *words, "kube", "play", "--network=none", "--replace", "/box/pod.json", check=False)
    return ended.stderr
