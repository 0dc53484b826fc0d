"""One name for many images: real engines pull through the proxy from a registry with a password and TLS."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import socket
import subprocess
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from amdgpu_simulator import build_host
from support.docker import Docker
from support.image_proxy import ImageProxy
from support.installed import engine_program, our_program, require_programs, require_root
from support.podman import Podman
from support.registry import INDEX, MANIFEST, PASSWORD, USER, Registry, credentials, digest_of, free_port, log_in
from support.stand_in_registry import StandInRegistry

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


def test_on_a_host_with_two_models_pick_is_given_the_digest_of_the_index(registry, proxy, tmp_path):
    require_programs("skopeo")
    here = proxy("rx7900xtx-raphael")
    mirrors = f'[[registry]]\nprefix = "registry.example"\nlocation = "{here.address}"\ninsecure = true\n'
    settings = tmp_path / ".config/containers/registries.conf"
    settings.parent.mkdir(parents=True)
    settings.write_text(mirrors)
    log_in(tmp_path, here.address)
    environment = {"PATH": os.environ["PATH"], "HOME": os.fspath(tmp_path), "AMD_CTK_HOST_ROOT": here.host.root}

    def pick(name):
        words = [our_program("amd-ctk"), "image", "pick", "--gpus=0", name]
        return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)

    by_name, by_digest = pick("registry.example/app:1"), pick(f"registry.example/app@{registry.index['digest']}")

    assert by_name.stderr.startswith(
        "the image proxy of this host refuses registry.example/app:1"
        " (name the index by the digest that 'amd-ctk image index' printed; skopeo: "
    )
    assert by_digest.stderr.splitlines()[-1] == "none of 3 images fits"


def test_a_host_without_a_driver_gets_none(proxy):
    status, _, content = ask(proxy("no-driver"), "/v2/app/manifests/1")

    assert status == 404
    assert b"no image for this host: amdgpu driver unavailable" in content


def test_a_request_that_is_no_choice_passes_byte_by_byte(registry, proxy):
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


def test_a_certificate_that_is_not_trusted_is_named_as_the_reason(registry, tmp_path):
    here = ImageProxy(build_host(tmp_path / "host", "mi210-4"), registry.url)

    status, _, content = ask(here, "/v2/app/manifests/1")
    here.stop()

    assert status == 502
    words = f"{registry.address} has a certificate that is not trusted: self-signed certificate"
    assert json.loads(content)["errors"][0]["message"] == words


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_push_through_the_proxy_is_refused(registry, proxy, method):
    status, _, content = ask(proxy("mi300x-8"), "/v2/app/blobs/uploads/", method=method)

    assert status == 405
    assert f"this proxy only pulls images: push to {registry.address}".encode() in content


def test_a_request_cannot_name_another_server(proxy):
    here = proxy("mi300x-8")
    for target in ("http://localhost:1/v2/", "//localhost:1/v2/", "/other", "*"):
        with socket.create_connection(("127.0.0.1", here.port)) as connection:
            connection.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            assert connection.recv(12)[9:] in (b"404", b"400")


def read_from(proxy, path, *, stop_after=None):
    """Read an answer; return its digest and size, or the connection that is still open after some of it."""
    request = urllib.request.Request(f"http://{proxy.address}{path}")
    request.add_header("Authorization", f"Basic {credentials()}")
    answer = urllib.request.urlopen(request, timeout=60)
    if stop_after:
        answer.read(stop_after)
        return answer
    hashed, size = hashlib.sha256(), 0
    with answer:
        while piece := answer.read(2**20):
            hashed.update(piece)
            size += len(piece)
    return f"sha256:{hashed.hexdigest()}", size


def test_many_pulls_at_once_get_what_is_theirs(registry, proxy):
    here = proxy("mi300x-8")
    blobs = [registry.push_blob("app", os.urandom(8 * 2**20)) for _ in range(4)]

    with ThreadPoolExecutor(16) as pulls:
        read = list(pulls.map(lambda blob: read_from(here, f"/v2/app/blobs/{blob['digest']}"), blobs * 4))

    assert read == [(blob["digest"], blob["size"]) for blob in blobs * 4]


# Opens connections, and sends each a request that never ends, byte by byte, until its standard input does.
HOARDER = """import contextlib, select, socket, sys
held = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(40)]
print("held", flush=True)
while not select.select([sys.stdin], [], [], 1)[0]:
    for each in held:
        with contextlib.suppress(OSError):
            each.send(b"G")
"""


def test_a_user_who_takes_every_place_keeps_nobody_else_from_pulling(registry, proxy):
    require_root()
    here = proxy("mi210-4")
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", HOARDER]
    with subprocess.Popen([*words, str(here.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as hoarder:
        assert hoarder.stdout.readline() == b"held\n"

        status, _, content = ask(here, "/v2/app/manifests/1")

        hoarder.stdin.close()
    assert (status, digest_of(content)) == (200, registry.images["gfx90a"]["digest"])


@pytest.fixture
def stand_in(tmp_path):
    """Return a registry that answers what a test says, and the proxy of a host with gfx90a in front of it."""
    registry = StandInRegistry()
    running = ImageProxy(build_host(tmp_path / "host", "mi210-4"), f"http://{registry.address}")
    yield registry, running
    running.stop()
    registry.close()


def test_a_layer_of_two_gibibytes_and_hostile_documents_need_less_than_64_mib(stand_in):
    registry, here = stand_in
    piece = bytes(2**20)

    def send_layer(connection):
        connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {2**31}\r\n\r\n".encode())
        for _ in range(2048):
            connection.sendall(piece)

    registry.answers["/v2/app/blobs/layer"] = send_layer
    # Of what fits into a document, this is what Python makes most of.
    registry.put_content("/v2/app/manifests/1", b"[" + b"[],[]," * 85_000 + b"[]]", f"Content-Type: {INDEX}")

    with ThreadPoolExecutor(24) as pulls:
        layers = [pulls.submit(read_from, here, "/v2/app/blobs/layer") for _ in range(2)]
        refusals = list(pulls.map(lambda _: ask(here, "/v2/app/manifests/1")[0], range(100)))

    assert [layer.result()[1] for layer in layers] == [2**31] * 2
    assert set(refusals) == {404}
    assert here.most_memory < 64 * 2**20


def test_a_proxy_that_is_killed_during_a_pull_leaves_it_unfinished_and_serves_the_next(registry, proxy, tmp_path):
    blob = registry.push_blob("app", os.urandom(32 * 2**20))
    here = ImageProxy(build_host(tmp_path / "host", "mi210-4"), registry.url, certificate=registry.certificate)
    path = f"/v2/app/blobs/{blob['digest']}"

    begun = read_from(here, path, stop_after=2**20)
    here.process.kill()
    here.process.wait()
    with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
        begun.read()
    here.start()

    assert read_from(here, path) == (blob["digest"], blob["size"])
    here.stop()


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """Return Podman, which is logged in nowhere."""
    require_root()
    engine_program("runc")
    directory = tmp_path_factory.mktemp("podman")
    return Podman(engine_program("podman"), directory, engine_program("runc"), "/")


@pytest.fixture
def by_name(registry, proxy, tmp_path, monkeypatch):
    """Return a function that configures an engine of a host for the proxy; it returns the file."""

    def configure(profile, engine, path):
        here = proxy(profile)
        root = here.host.root
        words = [our_program("amd-ctk"), "runtime", "configure", f"--runtime={engine}", "--images"]
        subprocess.run(words, env={**os.environ, "AMD_CTK_HOST_ROOT": root}, check=True, capture_output=True)
        return here, Path(root + path)

    return configure


@pytest.fixture
def podman(engine, tmp_path):
    """Return Podman with logins of its own, and nothing else that it knows of registries."""
    engine.environment["REGISTRY_AUTH_FILE"] = os.fspath(tmp_path / "auth.json")
    yield engine
    for name in ("REGISTRY_AUTH_FILE", "CONTAINERS_REGISTRIES_CONF"):
        engine.environment.pop(name, None)


@pytest.mark.parametrize("profile", ["mi210-4", "strix-halo"])
def test_podman_pulls_by_the_registrys_own_name(registry, podman, by_name, profile):
    here, file = by_name(profile, "podman", "/etc/containers/registries.conf.d/99-amd-images.conf")
    podman.environment["CONTAINERS_REGISTRIES_CONF"] = os.fspath(file)
    podman("login", f"--username={USER}", f"--password={PASSWORD}", here.address)

    ran = podman("run", "--rm", "--network=none", f"{registry.address}/app:1", check=False)

    if profile == "mi210-4":
        assert (ran.returncode, ran.stdout) == (0, "built for gfx90a\n"), ran.stderr
        podman("rmi", f"{registry.address}/app:1")
    else:
        assert ran.returncode == 125
        assert "manifest unknown: no image for this host: AMD_REQUIRE_GFX=gfx=gfx90a: GPU 0 is gfx1151" in ran.stderr


def test_podman_has_no_image_where_the_proxy_does_not_run(registry, podman, by_name, tmp_path):
    _, file = by_name("mi210-4", "podman", "/etc/containers/registries.conf.d/99-amd-images.conf")
    (tmp_path / "registries.conf").write_text(re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{free_port()}", file.read_text()))
    podman.environment["CONTAINERS_REGISTRIES_CONF"] = os.fspath(tmp_path / "registries.conf")
    (tmp_path / "auth.json").write_text("{}")

    refused = podman("pull", "--quiet", f"{registry.address}/app:1", check=False)

    assert refused.returncode == 125
    assert "connection refused" in refused.stderr
    assert podman("image", "exists", f"{registry.address}/app:1", check=False).returncode == 1


@pytest.fixture
def signer(podman, registry, proxy, tmp_path):
    """Return a function that signs a manifest as app:1; Podman takes images of the registry with a signature only."""
    require_programs("gpg", "gpg-agent")
    gnupg = tmp_path / "gnupg"
    gnupg.mkdir(mode=0o700)
    environment = {**os.environ, "GNUPGHOME": os.fspath(gnupg)}
    key = ("gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "builder@registry.example")
    subprocess.run(key, env=environment, check=True, capture_output=True)
    exported = ("gpg", "--export", "--output", tmp_path / "key.gpg", "builder@registry.example")
    subprocess.run(exported, env=environment, check=True)
    signed = {"type": "signedBy", "keyType": "GPGKeys", "keyPath": os.fspath(tmp_path / "key.gpg")}
    policy = {"default": [{"type": "reject"}], "transports": {"docker": {registry.address: [signed]}}}
    (tmp_path / "policy.json").write_text(json.dumps(policy))
    where = Path(podman.environment["HOME"], ".config/containers/registries.d/lookaside.yaml")
    where.parent.mkdir(parents=True, exist_ok=True)
    # By the address that is asked; a policy goes by the name that people use.
    lookaside = {"lookaside": f"file://{tmp_path}/signatures"}
    where.write_text(json.dumps({"docker": {proxy("mi210-4").address: lookaside}}))

    def sign(content):
        (tmp_path / "manifest").write_bytes(content)
        signature = tmp_path / f"signatures/app@{digest_of(content).replace(':', '=')}/signature-1"
        signature.parent.mkdir(parents=True, exist_ok=True)
        words = ("standalone-sign", tmp_path / "manifest", f"{registry.address}/app:1", "builder@registry.example")
        subprocess.run(["skopeo", *words, "--output", signature], env=environment, check=True, capture_output=True)

    yield sign
    where.unlink()
    subprocess.run(("gpgconf", "--kill", "all"), env=environment, check=True)


@pytest.mark.parametrize("what", ["the index alone", "the images too"])
def test_a_signature_of_an_image_holds_after_the_choice_and_one_of_the_index_does_not(
    registry, podman, proxy, by_name, signer, tmp_path, what
):
    here, file = by_name("mi210-4", "podman", "/etc/containers/registries.conf.d/99-amd-images.conf")
    podman.environment["CONTAINERS_REGISTRIES_CONF"] = os.fspath(file)
    podman("login", f"--username={USER}", f"--password={PASSWORD}", here.address)
    signer(ask(here, f"/v2/app/manifests/{registry.index['digest']}")[2])
    if what == "the images too":
        signer(ask(here, "/v2/app/manifests/1")[2])

    policy = f"--signature-policy={tmp_path}/policy.json"
    pulled = podman("pull", "--quiet", policy, f"{registry.address}/app:1", check=False)

    if what == "the images too":
        assert pulled.returncode == 0, pulled.stderr
        podman("rmi", f"{registry.address}/app:1")
    else:
        assert pulled.returncode == 125
        assert "A signature was required, but no signature exists" in pulled.stderr


def ctr(docker, *words):
    """Call the client of the containerd that Docker runs on."""
    command = ["ctr", f"--address={docker.directory}/containerd.sock", "--namespace=proxy", "images", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_containerd_pulls_by_the_registrys_own_name(registry, by_name, docker):
    for profile in ("mi210-4", "strix-halo"):
        _, file = by_name(profile, "containerd", f"/etc/containerd/certs.d/{registry.address}/hosts.toml")
        words = ("--snapshotter=native", f"--hosts-dir={file.parents[1]}", f"--user={USER}:{PASSWORD}")
        pulled = ctr(docker, "pull", *words, f"{registry.address}/app:1")

        listed = ctr(docker, "ls").stdout
        if profile == "mi210-4":
            assert pulled.returncode == 0, pulled.stderr
            assert registry.images["gfx90a"]["digest"] in listed
            ctr(docker, "rm", f"{registry.address}/app:1")
        else:
            assert pulled.returncode == 1
            assert f"{registry.address}/app:1: not found" in pulled.stderr
            assert registry.address not in listed


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


def test_an_indexs_digest_is_no_choice_and_the_runtime_refuses_the_image_at_the_start(
    proxy, registry, tmp_path, monkeypatch
):
    require_root()
    require_programs("dockerd", "containerd", "docker", "runc")
    here = proxy("mi300x-8")
    log_in(tmp_path, here.address)
    monkeypatch.setenv("HOME", str(tmp_path))
    running = DockerOnLoopback(our_program("amd-container-runtime"), here.host.root)
    running.start()
    try:
        name = f"{here.address}/app@{registry.index['digest']}"
        words = ("run", "--rm", "--network=none", "--runtime=amd", "--env=AMD_VISIBLE_DEVICES=0", name)
        ran = running(*words, check=False)
    finally:
        running.stop()

    assert ran.returncode == 125
    assert "AMD_REQUIRE_GFX=gfx=gfx90a: GPU 0 is gfx942" in ran.stderr
