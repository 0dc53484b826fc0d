"""Random command lines with images that name a user, with groups, drivers, CDI directories and volumes, from a seed.

The words are in image_lines.json. They come from public reports and the engines' manual pages. Each word is used alone
once; then words are combined.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
from hashlib import sha256
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

Piece = tuple[str, ...]

# Another seed asks other questions; AMD_LINES_ANSWERS names the directory for their answers.
SEED = int(os.environ.get("AMD_LINES_SEED", "29"))
LINES = 500
WORDS: dict[str, list[Any]] = json.loads(Path(__file__).with_name("image_lines.json").read_text(encoding="utf-8"))
# What every image has.
PASSWD = "root:x:0:0::/:/bin/sh\napp:x:1234:1234::/:/bin/sh\ngpuuser:x:1000:1000::/:/bin/sh\n"
GROUP = "root:x:0:\napp:x:1234:\nrender:x:777:gpuuser,root\nvideo:x:39:app\n"
# The directories of CDI specs that the engine's file names; [] if it names none.
DIRECTORIES: dict[str, list[str]] = {
    "usual": [],
    "elsewhere": ["/box/cdi"],
    "two": ["/etc/cdi", "/box/cdi"],
    "off": [""],
}
# Kinds of the specs in /box/cdi, whose GPU 0 is another one than that of /etc/cdi.
KINDS = ("amd.com/gpu", "box.com/gpu")
RENDER_NODES = {"0": "renderD131", "x": "renderD130"}
OPTIONS = {
    "user": ("-u", "--user"),
    "group": ("--group-add",),
    "gpus": ("--gpus",),
    "env_file": ("--env-file",),
    "device": ("--device",),
    "volume": ("-v", "--volume"),
    "mount": ("--mount",),
    "variable": ("-e", "--env"),
    "runtime": ("--runtime",),
}


class ImageLine(NamedTuple):
    """A command: how its engine is set, the words in front of its program, of `run`, of the image, and behind it."""

    directories: str
    with_runtime: bool
    launcher: Piece
    before: Piece
    options: Piece
    user: str
    environment: Piece
    behind: Piece
    with_caller: bool

    @property
    def words(self) -> Piece:
        """Return the words behind `run`."""
        return (*self.options, image_name(self.user, self.environment), *self.behind)


def image_name(user: str, environment: Piece) -> str:
    """Return the name of the image with a user and an environment."""
    return f"image-{WORDS['image_user'].index(user)}-{WORDS['image_environment'].index([*environment])}:local"


def every_image() -> list[tuple[str, Piece]]:
    """Return the user and the environment of every image."""
    return [
        (user, tuple(environment)) for user, environment in product(WORDS["image_user"], WORDS["image_environment"])
    ]


def pack_images(archive: Path) -> None:
    """Write all images as `docker load` and `podman load` read them."""
    layer = _tar({"etc/passwd": PASSWD.encode(), "etc/group": GROUP.encode(), "bin/true": b"", "tmp/x": b""})
    files, listed = {"layer.tar": layer}, []
    for number, (user, environment) in enumerate(every_image()):
        config = {"Cmd": ["true"], "User": user, "Env": ["PATH=/bin", *environment]}
        image = {"architecture": "amd64", "os": "linux", "config": config, "history": [{"created_by": str(number)}]}
        rootfs = {"type": "layers", "diff_ids": [f"sha256:{sha256(layer).hexdigest()}"]}
        content = json.dumps({**image, "rootfs": rootfs}).encode()
        name = f"{sha256(content).hexdigest()}.json"
        files[name] = content
        listed.append({"Config": name, "RepoTags": [image_name(user, environment)], "Layers": ["layer.tar"]})
    archive.write_bytes(_tar({**files, "manifest.json": json.dumps(listed).encode()}))


def _tar(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755
            tar.addfile(member, io.BytesIO(content))
    return made.getvalue()


def other_specs() -> dict[str, str]:
    """Return the CDI specs of the directory that is not the usual one, by path."""
    devices = [
        {"name": name, "containerEdits": {"deviceNodes": [{"path": "/dev/kfd"}, {"path": f"/dev/dri/{node}"}]}}
        for name, node in RENDER_NODES.items()
    ]
    specs = {kind: {"cdiVersion": "0.5.0", "kind": kind, "devices": devices} for kind in KINDS}
    return {f"/box/cdi/{kind.partition('.')[0]}.json": json.dumps(spec) for kind, spec in specs.items()}


def make_image_lines(seed: int, count: int, *, is_podman: bool, has_directories: bool) -> list[ImageLine]:
    """Return each word alone, then lines of several, in the order of DIRECTORIES; the same seed gives the same ones."""
    rng = Random(seed)
    given = [[_written(rng, option, word)] for option in OPTIONS for word in WORDS[option]]
    given += [[tuple(piece)] for piece in WORDS["others"]]
    lines = [_line(rng, pieces, is_podman=is_podman) for pieces in given]
    lines += [_line(rng, [], is_podman=is_podman)._replace(user=user) for user in WORDS["image_user"]]
    lines += [_line(rng, [], is_podman=is_podman)._replace(launcher=tuple(one)) for one in WORDS["launcher"]]
    while len(lines) < count:
        several = [_written(rng, option, rng.choice(WORDS[option])) for option in rng.choices([*OPTIONS], k=3)]
        several += [tuple(rng.choice(WORDS["others"]))] if rng.random() < 0.2 else []
        lines.append(_line(rng, several, is_podman=is_podman))
    settings = [*DIRECTORIES] if has_directories else ["usual"]
    lines = [line._replace(directories=rng.choice(settings) if _names_cdi(line) else "usual") for line in lines]
    return sorted(lines, key=lambda line: settings.index(line.directories))


def _names_cdi(line: ImageLine) -> bool:
    return any("com/gpu" in word or word.startswith(("--gpus", "all", "driver")) for word in line.options)


def _line(rng: Random, pieces: list[Piece], *, is_podman: bool) -> ImageLine:
    return ImageLine(
        directories="usual",
        with_runtime=rng.random() < 0.6,
        launcher=tuple(rng.choice(WORDS["launcher"])) if rng.random() < 0.08 else (),
        before=tuple(rng.choice(WORDS["before_podman"])) if is_podman and rng.random() < 0.1 else (),
        options=tuple(word for piece in pieces for word in piece),
        user=rng.choice(WORDS["image_user"]) if rng.random() < 0.4 else "",
        environment=tuple(rng.choice(WORDS["image_environment"])),
        behind=tuple(rng.choice(WORDS["behind"])),
        with_caller=rng.random() < 0.3,
    )


def _written(rng: Random, option: str, word: str) -> Piece:
    """Format an option with its value as one word or two."""
    name = rng.choice(OPTIONS[option])
    if not name.startswith("--"):
        return (name, word)
    return (f"{name}={word}",) if rng.random() < 0.6 else (name, word)
