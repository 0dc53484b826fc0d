"""One service with one image name on two nodes: each pulls the image for its GPUs through its own proxy."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.installed import engine_program, our_program
from support.registry import MANIFEST, Registry
from support.stand_in_registry import made_for
from support.swarm_node import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.swarm]

NAME = "127.0.0.1:505/app:1"
PLATFORM = {"platform": {"architecture": "amd64", "os": "linux"}}


@pytest.fixture(scope="module")
def stored(tmp_path_factory, image_archive):
    """Return the directory of a registry that has app:1, an index of an image for the GPUs of each node."""
    registry = Registry(tmp_path_factory.mktemp("registry"))
    entries = []
    for target in ("gfx90a", "gfx942"):
        config = {
            "Cmd": ["sh", "-c", f"echo built for {target}; sleep 1000"],
            "Env": [f"AMD_REQUIRE_GFX=gfx={target}"],
        }
        pushed = registry.push(f"app:{target}", image_archive.read_bytes(), config=config)
        entries.append(made_for(target, {**pushed, **PLATFORM, "mediaType": MANIFEST}))
    registry.push_index("app:1", *entries)
    registry.stop()
    settings = registry.directory / "config.yml"
    settings.write_text(settings.read_text().replace(registry.address, "127.0.0.1:5000"))
    return registry.directory


@pytest.fixture(scope="module")
def nodes(make_node, start_manager, start_worker, stored):
    """Return a manager with MI210 and a worker with MI300X; in the network of each are a registry and a proxy."""
    as_ours = {"default-runtime": "amd"}
    manager = make_node("one", "mi210-4", "10.99.9.1", **as_ours)
    worker = make_node("two", "mi300x-8", "10.99.9.2", **as_ours)
    manager.connect(worker)
    start_manager(manager)
    start_worker(worker, manager)
    with ExitStack() as running:
        for node in (manager, worker):
            settings = Path(node.host.path("/etc/amd-container-toolkit/images.toml"))
            settings.parent.mkdir(parents=True, exist_ok=True)
            settings.write_text('505 = "http://127.0.0.1:5000"\n')
            registry = (engine_program("docker-registry"), "serve", stored / "config.yml")
            for words in (registry, (our_program("amd-ctk"), "image", "serve", "505")):
                environment = {"PATH": os.environ["PATH"], "AMD_CTK_HOST_ROOT": node.host.root}
                process = subprocess.Popen([*node.under, *words], env=environment, stderr=subprocess.DEVNULL)
                running.callback(process.wait)
                running.callback(process.terminate)
        yield manager, worker


def images_of(nodes, service):
    """Return what the container of a service on each node says that it was built for, "" before it says so."""
    said = []
    for node in nodes:
        containers = node("ps", "--quiet", f"--filter=label=com.docker.swarm.service.name={service}").stdout.split()
        said.append(node("logs", *containers).stdout if containers else "")
    return said


def test_without_resolving_the_name_each_node_runs_the_image_for_its_gpus(nodes):
    manager, _ = nodes

    manager("service", "create", "--name=each", "--detach", "--mode=global", "--no-resolve-image", NAME)

    wait_until(lambda: all(images_of(nodes, "each")))
    assert images_of(nodes, "each") == ["built for gfx90a\n", "built for gfx942\n"]
    manager("service", "rm", "each")


def test_a_name_that_the_manager_resolves_is_the_managers_image_on_every_node(nodes):
    manager, _ = nodes
    # The client asks the registry by its manager.
    manager("service", "create", "--name=same", "--detach", "--mode=global", NAME)

    wait_until(lambda: all(images_of(nodes, "same")))
    assert images_of(nodes, "same") == ["built for gfx90a\n", "built for gfx90a\n"]
    manager("service", "rm", "same")


def test_there_the_runtime_of_the_other_node_refuses_the_managers_image(nodes):
    manager, _ = nodes
    words = ("--name=checked", "--detach", "--mode=global", "--restart-condition=none", "--env=AMD_VISIBLE_DEVICES=all")
    manager("service", "create", *words, NAME)

    def errors():
        shown = manager("service", "ps", "--no-trunc", "--format={{.Node}} {{.Error}}", "checked").stdout
        return [line for line in shown.splitlines() if "AMD_REQUIRE_GFX" in line]

    wait_until(errors)
    (error,) = errors()
    assert "AMD_REQUIRE_GFX=gfx=gfx90a: GPU 0 is gfx942" in error
    wait_until(lambda: images_of(nodes, "checked")[0])
    assert images_of(nodes, "checked") == ["built for gfx90a\n", ""]
    manager("service", "rm", "checked")
