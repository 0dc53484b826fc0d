"""A container as its user describes it, before an engine has made anything of it."""

from __future__ import annotations

from amdgpu_discovery.value import Value


class Container(Value):
    """What of a `docker run`, a Compose service or a list of variables decides about GPUs."""

    # Who is told: "docker", "podman" or another engine's name; "" for the AMD runtime itself.
    engine: str = ""
    # NAME=VALUE, in the order in which the engine puts them into the spec.
    environment: tuple[str, ...] = ()
    # As behind --device: PATH[:PATH[:ACCESS]], or the qualified name of a CDI device.
    devices: tuple[str, ...] = ()
    # As behind --gpus, "" where it is not given.
    gpus: str = ""
    # "" for the engine's default.
    runtime: str = ""
    privileged: bool = False
    # What `--cap-add` adds, without CAP_.
    capabilities: tuple[str, ...] = ()
    user: str = ""
    groups: tuple[str, ...] = ()
    # What gives the container a user namespace of its own, "" where nothing does.
    user_namespace: str = ""
    image: str = ""
    # Whether the environment has what the image sets.
    is_image_known: bool = False
