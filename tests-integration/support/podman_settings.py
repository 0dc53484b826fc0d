"""Commands of Podman on hosts whose configuration files add devices and variables to each container."""

from __future__ import annotations

from typing import NamedTuple

from support.run_lines import IMAGE, IMAGE_VARIABLES, PLAIN_IMAGE

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
