"""The image proxy as packages bring it: systemd starts it under its own options, and Podman pulls through it."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from support.installed import engine_program, require_root
from support.registry import PASSWORD, USER, Registry
from support.stand import Stand, wait_until
from support.stand_in_registry import made_for

pytestmark = [pytest.mark.e2e, pytest.mark.install]

REGISTRY = "localhost:5000"
SERVICE = "amd-ctk-images@505.service"
NO_IMAGE = "no image for this host: AMD_REQUIRE_GFX=gfx=gfx942: GPU 0 is gfx90a"


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def stand(request, tmp_path_factory, image_archive):
    """Return a server with four MI210 on which the proxy of a registry is enabled, which has a password and TLS."""
    require_root()
    stand = Stand(tmp_path_factory.mktemp(request.param), request.param)
    try:
        put_registry(stand, image_archive.read_bytes())
        stand.write("/etc/amd-container-toolkit/images.toml", f'505 = "{REGISTRY}"\n')
        stand.configure_podman()
        yield stand
    finally:
        stand.stop()


def put_registry(stand, layer):
    """Let a registry run on the server: app:1 is an index of two images, app:2 one of an image for other GPUs."""
    registry = Registry(stand.shared / "registry", has_login=True, has_tls=True)
    images = {}
    for target in ("gfx942", "gfx90a"):
        config = {"Cmd": ["echo", f"built for {target}"], "Env": [f"AMD_REQUIRE_GFX=gfx={target}"]}
        platform = {"platform": {"architecture": "amd64", "os": "linux"}}
        images[target] = made_for(target, {**registry.push(f"app:{target}", layer, config=config), **platform})
    registry.push_index("app:1", *images.values())
    registry.push_index("app:2", images["gfx942"])
    registry.stop()
    settings = (registry.directory / "config.yml").read_text().replace(os.fspath(stand.shared), "/run/shared")
    (registry.directory / "config.yml").write_text(settings.replace(registry.address, REGISTRY))
    shutil.copy(engine_program("docker-registry"), stand.shared)
    hashed = [engine_program("openssl"), "x509", "-noout", "-hash", "-in", registry.certificate]
    name = subprocess.run(hashed, capture_output=True, text=True, check=True).stdout.strip()
    # Where Debian's openssl has it looked for.
    stand.run("mkdir -p /etc/ssl/certs /usr/lib/ssl; ln -sfn /etc/ssl/certs /usr/lib/ssl/certs")
    stand.run(f"cp /run/shared/registry/certificate.pem /etc/ssl/certs/{name}.0")
    stand.run("systemd-run --quiet --unit=registry /run/shared/docker-registry serve /run/shared/registry/config.yml")


def test_packages_leave_it_off(stand):
    assert stand.run("systemctl is-enabled amd-ctk-images@505.socket", check=False) == "disabled\n"
    assert stand.run("systemctl list-units --no-legend 'amd-ctk-images@*'") == ""


def test_one_name_is_the_image_for_the_gpus_of_the_server(stand):
    stand.run("systemctl enable --quiet --now amd-ctk-images@505.socket")
    assert stand.run("amd-ctk runtime configure --runtime podman --images").endswith(
        "Please run: sudo systemctl enable --now amd-ctk-images@505.socket\n"
    )
    stand.run(f"podman login --username={USER} --password={PASSWORD} 127.0.0.1:505 2>&1")

    stand.run(f"podman pull --quiet {REGISTRY}/app:1 2>&1")
    refused = stand.run(f"podman pull --quiet {REGISTRY}/app:2 2>&1", check=False)

    made = stand.run(f"podman image inspect --format '{{{{.Config.Cmd}}}}' {REGISTRY}/app:1")
    assert made == "[echo built for gfx90a]\n"
    assert NO_IMAGE in refused
    assert NO_IMAGE in stand.journal_of(SERVICE)


def test_a_user_pulls_with_logins_of_his_own(stand):
    stand.run("loginctl enable-linger alice bob")
    stand.as_user("alice", f"podman login --username={USER} --password={PASSWORD} 127.0.0.1:505 2>&1")

    assert stand.as_user("alice", f"podman pull --quiet {REGISTRY}/app:1 2>&1")
    assert "authentication required" in stand.as_user("bob", f"podman pull --quiet {REGISTRY}/app:1 2>&1", check=False)


def test_docker_of_the_release_pulls_the_image_of_the_server_or_shows_why_not(stand):
    stand.run(f"docker login --username={USER} --password={PASSWORD} 127.0.0.1:505 2>&1")

    stand.run("docker pull --quiet 127.0.0.1:505/app:1 2>&1")
    refused = stand.run("docker pull --quiet 127.0.0.1:505/app:2 2>&1", check=False)

    made = stand.run("docker image inspect --format '{{json .Config.Cmd}}' 127.0.0.1:505/app:1")
    assert made == '["echo","built for gfx90a"]\n'
    assert NO_IMAGE in refused
    assert stand.run("docker image ls --quiet 127.0.0.1:505/app:2") == ""


def test_a_proxy_that_is_killed_again_and_again_answers_the_next_pull(stand):
    ask = "podman search --limit=1 127.0.0.1:505/app >/dev/null 2>&1"
    for _ in range(8):
        stand.run(f"{ask}; systemctl kill --signal=KILL {SERVICE}; sleep 0.1", check=False)

    stand.run(f"podman rmi {REGISTRY}/app:1; podman pull --quiet {REGISTRY}/app:1 2>&1")

    assert stand.run("systemctl is-active amd-ctk-images@505.socket") == "active\n"


def test_a_proxy_without_its_file_stops_trying_and_serves_once_it_is_there(stand):
    stand.run(f"systemctl stop {SERVICE}; mv /etc/amd-container-toolkit/images.toml /root/")
    stand.run("podman search 127.0.0.1:505/app 2>&1", check=False)
    wait_until(lambda: stand.run("systemctl is-active amd-ctk-images@505.socket", check=False) == "failed\n")
    assert "images.toml does not exist" in stand.journal_of(SERVICE)

    stand.run("mv /root/images.toml /etc/amd-container-toolkit/; systemctl reset-failed 'amd-ctk-images@*'")
    stand.run("systemctl start amd-ctk-images@505.socket")
    stand.run(f"podman rmi {REGISTRY}/app:1; podman pull --quiet {REGISTRY}/app:1 2>&1")


def test_the_proxy_has_a_dynamic_user_and_no_privilege(stand):
    stand.run("podman search 127.0.0.1:505/app 2>&1", check=False)
    status = stand.run(f"cat /proc/$(systemctl show -P MainPID {SERVICE})/status")
    lines = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)

    assert int(lines["Uid"].split()[0]) >= 61184
    assert lines["CapEff"] == lines["CapBnd"] == "0000000000000000"
    assert lines["NoNewPrivs"] == "1"
    assert int(lines["VmHWM"].split()[0]) < 64 * 1024


def test_the_proxy_listens_on_loopback_alone(stand):
    assert stand.run("systemctl show -P Listen amd-ctk-images@505.socket") == "127.0.0.1:505 (Stream)\n"


def test_removal_takes_it_out_of_podman_and_stops_it(stand):
    stand.apt("remove amd-ctk")

    assert stand.run("ls /etc/containers/registries.conf.d/99-amd-images.conf 2>&1", check=False).endswith(
        "No such file or directory\n"
    )
    assert stand.run("systemctl is-active amd-ctk-images@505.socket", check=False) == "inactive\n"
    stand.apt("purge amd-ctk")
    assert stand.run("ls /etc/systemd/system/sockets.target.wants | grep amd", check=False) == ""
