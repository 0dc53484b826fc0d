"""One name for many images: real engines pull through the proxy from a registry with a password and TLS."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request

import pytest

from amdgpu_discovery.simulate import build_host
from support.docker import Docker
from support.image_proxy import ImageProxy
from support.installed import engine_program, our_program, require_programs, require_root
from support.podman import Podman
from support.registry import INDEX, MANIFEST, PASSWORD, USER, Registry, credentials, digest_of, log_in

pytestmark = pytest.mark.e2e

HOSTS = {"mi210-4": "gfx90a", "mi300x-8": "gfx942", "mi355x-8": "gfx950"}
PLATFORM = {"architecture": "amd64", "os": "linux"}


@pytest.fixture(scope="module")
def registry(tmp_path_factory, image_archive):
    """Return a registry in which app:1 is an index of an image for each target; each says what it is."""
    running = Registry(tmp_path_factory.mktemp("registry"), has_login=True, has_tls=True)
    running.images = {}
    for target in HOSTS.values():
        config = {"Cmd": ["echo", f"built for {target}"], "Env": [f"AMD_REQUIRE_GFX=gfx={target}"]}
        pushed = running.push(f"app:1-{target}", image_archive.read_bytes(), config=config)
        told = {"annotations": {"com.amd.gpu.require.gfx": f"gfx={target}"}, "platform": PLATFORM}
        running.images[target] = {**pushed, **told}
    running.index = running.push_index("app:1", *running.images.values())
    running.plain = running.push_index("app:plain", {**running.images["gfx942"], "annotations": {}})
    yield running
    running.stop()


@pytest.fixture(scope="module")
def proxy(registry, tmp_path_factory):
    """Return a function that starts the proxy of a simulated host, once for each."""
    started = {}

    def start(profile):
        if profile not in started:
            host = build_host(tmp_path_factory.mktemp(profile) / "host", profile)
            started[profile] = ImageProxy(host, registry.url, certificate=registry.certificate)
            started[profile].host = host
        return started[profile]

    yield start
    for running in started.values():
        running.stop()


def ask(proxy, path, *, method="GET", accept=(INDEX, MANIFEST), login=True):
    """Return the status, the headers and the content of an answer."""
    request = urllib.request.Request(f"http://{proxy.address}{path}", method=method)
    request.add_header("Accept", ", ".join(accept))
    if login:
        request.add_header("Authorization", f"Basic {credentials()}")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


@pytest.mark.parametrize(("profile", "target"), HOSTS.items())
def test_head_and_get_of_a_tag_choose_alike(registry, proxy, profile, target):
    here, path = proxy(profile), "/v2/app/manifests/1"

    got, headed = ask(here, path), ask(here, path, method="HEAD")

    wanted = registry.images[target]
    for status, headers, _ in (got, headed):
        assert (status, headers["Docker-Content-Digest"]) == (200, wanted["digest"])
        assert (headers["Content-Type"], headers["Content-Length"]) == (MANIFEST, str(wanted["size"]))
    assert digest_of(got[2]) == wanted["digest"]
    assert headed[2] == b""


def test_where_no_image_fits_the_answer_says_why(proxy):
    status, _, content = ask(proxy("strix-halo"), "/v2/app/manifests/1")

    assert status == 404
    assert json.loads(content) == {
        "errors": [
            {
                "code": "MANIFEST_UNKNOWN",
                "message": "no image for this host: AMD_REQUIRE_GFX=gfx=gfx90a: GPU 0 is gfx1151;"
                " AMD_REQUIRE_GFX=gfx=gfx942: GPU 0 is gfx1151; AMD_REQUIRE_GFX=gfx=gfx950: GPU 0 is gfx1151",
            }
        ]
    }


def test_a_host_without_a_driver_gets_none(proxy):
    status, _, content = ask(proxy("no-driver"), "/v2/app/manifests/1")

    assert status == 404
    assert b"no image for this host: amdgpu driver unavailable" in content


def test_what_is_no_choice_passes_byte_by_byte(registry, proxy):
    here = proxy("mi300x-8")

    for reference, wanted in (("plain", registry.plain), (registry.index["digest"], registry.index)):
        status, headers, content = ask(here, f"/v2/app/manifests/{reference}")
        assert (status, headers["Docker-Content-Digest"]) == (200, wanted["digest"])
        assert digest_of(content) == wanted["digest"]
    assert ask(here, "/v2/app/manifests/1-gfx90a")[1]["Docker-Content-Digest"] == registry.images["gfx90a"]["digest"]
    assert json.loads(ask(here, "/v2/app/tags/list")[2])["name"] == "app"


def test_errors_of_the_registry_are_the_answer(registry, proxy):
    here = proxy("mi300x-8")

    status, headers, content = ask(here, "/v2/app/manifests/1", login=False)

    assert (status, headers["WWW-Authenticate"]) == (401, 'Basic realm="registry"')
    assert b"UNAUTHORIZED" in content
    assert ask(here, "/v2/app/manifests/none")[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_nothing_is_pushed_through_it(registry, proxy, method):
    status, _, content = ask(proxy("mi300x-8"), "/v2/app/blobs/uploads/", method=method)

    assert status == 405
    assert f"this proxy only pulls images: push to {registry.address}".encode() in content


def test_a_request_cannot_name_another_server(proxy):
    here = proxy("mi300x-8")
    for target in ("http://localhost:1/v2/", "//localhost:1/v2/", "/other", "*"):
        with socket.create_connection(("127.0.0.1", here.port)) as connection:
            connection.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            assert connection.recv(12)[9:] in (b"404", b"400")


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """Return Podman, which is logged in nowhere."""
    require_root()
    engine_program("runc")
    directory = tmp_path_factory.mktemp("podman")
    return Podman(engine_program("podman"), directory, engine_program("runc"), "/")


def pull(engine, proxy):
    login = ("--tls-verify=false", "--creds", f"{USER}:{PASSWORD}")
    return engine("pull", "--quiet", *login, f"{proxy.address}/app:1", check=False)


@pytest.mark.parametrize(("profile", "target"), HOSTS.items())
def test_podman_pulls_the_image_of_its_host(engine, proxy, profile, target):
    here = proxy(profile)

    assert pull(engine, here).returncode == 0
    ran = engine("run", "--rm", "--network=none", f"{here.address}/app:1")

    assert ran.stdout == f"built for {target}\n"


def test_podman_shows_why_no_image_fits_and_has_none(engine, proxy):
    here = proxy("strix-halo")

    refused = pull(engine, here)

    assert refused.returncode != 0
    assert "no image for this host: AMD_REQUIRE_GFX=gfx=gfx90a: GPU 0 is gfx1151" in refused.stderr
    assert engine("image", "exists", f"{here.address}/app:1", check=False).returncode == 1


class DockerOnLoopback(Docker):
    """A Docker that reaches the proxy of this machine."""

    under = ()


@pytest.fixture(scope="module")
def docker():
    """Return a Docker without the AMD runtime's host."""
    require_root()
    require_programs("dockerd", "containerd", "docker", "runc")
    running = DockerOnLoopback(our_program("amd-container-runtime"))
    running.start()
    yield running
    running.stop()


@pytest.mark.parametrize("profile", ["mi210-4", "strix-halo"])
def test_docker_pulls_the_image_of_its_host_or_shows_why_not(docker, proxy, tmp_path, monkeypatch, profile):
    here = proxy(profile)
    log_in(tmp_path, here.address)
    monkeypatch.setenv("HOME", str(tmp_path))

    ran = docker("run", "--rm", "--network=none", f"{here.address}/app:1", check=False)

    if profile == "mi210-4":
        assert (ran.returncode, ran.stdout) == (0, "built for gfx90a\n"), ran.stderr
    else:
        assert ran.returncode == 125
        assert "manifest unknown: no image for this host: AMD_REQUIRE_GFX=gfx=gfx90a: GPU 0 is gfx1151" in ran.stderr
