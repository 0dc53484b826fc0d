"""Which configuration file an engine's daemon reads on a host: its unit may name another than the default one."""

from __future__ import annotations

from amd_ctk.configuration.engine import Engine
from amd_ctk.configuration.unit_files import has_unit, read_command_line
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

LINES = "the lines that \"amd-ctk runtime configure --runtime=containerd --config-path=''\" prints"
NIX_STORE = "/nix/store/"
NIX_HINT = {
    "docker": "set virtualisation.docker.daemon.settings.runtimes.amd.path in configuration.nix",
    "containerd": f"write {LINES} into virtualisation.containerd.settings in configuration.nix",
}


class EngineElsewhere(ToolkitError):
    """The engine of this host has a file that amd-ctk does not edit."""


class BundledEngine(Value):
    """A program that brings an engine of its own, with a file that it writes itself."""

    name: str
    engine: str
    units: tuple[str, ...]
    file: str
    hint: str


# Sources: manuals of k3s, RKE2, MicroK8s and k0s on containerd; canonical/docker-snap.
BUNDLES = (
    BundledEngine(
        name="Docker's snap",
        engine="docker",
        units=("snap.docker.dockerd",),
        file="/var/snap/docker/current/config/daemon.json",
        hint="a snap cannot start programs of the host: install Docker from packages",
    ),
    *(
        BundledEngine(
            name=name,
            engine="containerd",
            units=units,
            file=f"/var/lib/rancher/{directory}/agent/etc/containerd/config.toml",
            hint=f"write '{{{{ template \"base\" . }}}}' and {LINES} into config.toml.tmpl there"
            " (config-v3.toml.tmpl for containerd 2)",
        )
        for name, directory, units in (
            ("k3s", "k3s", ("k3s", "k3s-agent")),
            ("RKE2", "rke2", ("rke2-server", "rke2-agent")),
        )
    ),
    BundledEngine(
        name="MicroK8s",
        engine="containerd",
        units=("snap.microk8s.daemon-containerd",),
        file="/var/snap/microk8s/current/args/containerd.toml",
        hint=f"write {LINES} into containerd-template.toml there",
    ),
    BundledEngine(
        name="k0s",
        engine="containerd",
        units=("k0scontroller", "k0sworker"),
        file="/etc/k0s/containerd.toml",
        hint=f"write {LINES} into a file below /etc/k0s/containerd.d",
    ),
)


class OwnFile(Value):
    """The configuration file of an engine; `refusal` is why amd-ctk does not edit it, None if it does."""

    path: str
    refusal: EngineElsewhere | None = None


def find_own_file(host: Host, engine: Engine) -> OwnFile:
    """Return the file that an engine's daemon reads, its default one unless its unit or a bundle says otherwise."""
    options = read_command_line(host, f"{engine.service}.service") if engine.file_options else None
    named = [value for option in engine.file_options for value in options.values_of(option)] if options else []
    if named:
        path = named[-1]
        return OwnFile(path=path, refusal=_refuse_store(engine, path) if path.startswith(NIX_STORE) else None)
    if options is None or options.unit:
        return OwnFile(path=engine.config_path)
    bundle = next((each for each in BUNDLES if each.engine == engine.name and _is_installed(host, each)), None)
    return OwnFile(path=bundle.file, refusal=_refuse_bundle(bundle)) if bundle else OwnFile(path=engine.config_path)


def find_path(host: Host, engine: Engine) -> str:
    """Return the path of the file that an engine's daemon reads."""
    return find_own_file(host, engine).path


def _is_installed(host: Host, bundle: BundledEngine) -> bool:
    return any(has_unit(host, f"{unit}.service") for unit in bundle.units)


def _refuse_store(engine: Engine, path: str) -> EngineElsewhere:
    return EngineElsewhere(f"{engine.name} reads {path}, which NixOS builds", hint=NIX_HINT.get(engine.name, ""))


def _refuse_bundle(bundle: BundledEngine) -> EngineElsewhere:
    problem = f"{bundle.engine} of this host belongs to {bundle.name} and reads {bundle.file}"
    return EngineElsewhere(problem, hint=f"{bundle.hint}; --config-path names another file")
