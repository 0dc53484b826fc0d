"""Compare pulls through the image proxy with direct ones, as root: `image_pulls.py [PAIRS] [MEBIBYTES]`.

The registry is docker-registry with a password and TLS; the image is one layer that does not compress. Each pair of
pulls, by Podman and by Docker, has one of each kind in alternating order. Memory is the proxy's peak.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tarfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1] / "tests-integration"))

from amdgpu_simulator import build_host
from support.docker import Docker
from support.image_proxy import ImageProxy
from support.installed import engine_program
from support.podman import Podman
from support.registry import CONFIG, INDEX, LAYER, MANIFEST, PASSWORD, USER, Registry, credentials
from support.stand_in_registry import AMD64, made_for

ANSWERS = 30


class DockerOnLoopback(Docker):
    """A Docker that can reach the registry and the proxy on this machine."""

    under = ()


def main(words):
    pairs, mebibytes = map(int, (words + ["5", "2048"][len(words) :])[:2])
    with TemporaryDirectory(dir="/var/tmp") as name, ExitStack() as running:
        directory = Path(name)
        registry = Registry(directory / "registry", has_login=True, has_tls=True)
        running.callback(registry.stop)
        put_image(registry, directory / "layer", mebibytes)
        proxy = ImageProxy(build_host(directory / "host", "mi210-4"), registry.url, certificate=registry.certificate)
        running.callback(proxy.stop)
        measure_answers(registry, proxy)
        os.environ.update(HOME=name, SSL_CERT_FILE=f"{registry.certificate}")
        names = (f"{registry.address}/app:image", f"{proxy.address}/app:1")
        measure_podman(directory, names, pairs)
        measure_docker(directory, names, pairs, running)
        print(f"memory of the proxy: {proxy.most_memory / 2**20:.0f} MiB")


def put_image(registry, file, mebibytes):
    """Store app:image, and app:1, which is an index with that image."""
    digest, size = write_layer(file, mebibytes)
    place = registry.request("POST", f"{registry.url}/v2/app/blobs/uploads/")["Location"]
    headers = {"Authorization": f"Basic {credentials()}", "Content-Type": "application/octet-stream"}
    with file.open("rb") as content:
        url = f"{place}{'&' if '?' in place else '?'}digest={digest}"
        request = urllib.request.Request(url, content, {**headers, "Content-Length": str(size)}, method="PUT")
        urllib.request.urlopen(request, context=registry.tls).close()
    file.unlink()
    configuration = {**AMD64, "config": {}, "rootfs": {"type": "layers", "diff_ids": [digest]}}
    described = {"mediaType": CONFIG, **registry.push_blob("app", json.dumps(configuration).encode())}
    layers = [{"mediaType": LAYER, "digest": digest, "size": size}]
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described, "layers": layers}
    image = registry.push_document("app:image", manifest)
    registry.push_index("app:1", made_for("gfx90a", {**image, "platform": AMD64}))


def write_layer(file, mebibytes):
    content = file.with_suffix(".content")
    with content.open("wb") as written:
        for _ in range(mebibytes):
            written.write(os.urandom(2**20))
    with tarfile.open(file, "w") as archive:
        archive.add(content, "content")
    content.unlink()
    with file.open("rb") as layer:
        hashed = hashlib.sha256()
        while piece := layer.read(2**22):
            hashed.update(piece)
    return f"sha256:{hashed.hexdigest()}", file.stat().st_size


def measure_answers(registry, proxy):
    """Print the additional time for a manifest, and the time if the proxy has to start first."""
    tagged, direct = f"http://{proxy.address}/v2/app/manifests/1", f"{registry.url}/v2/app/manifests/image"
    seconds_of(read, tagged)
    pairs = [(seconds_of(read, direct, registry.tls), seconds_of(read, tagged)) for _ in range(ANSWERS)]
    starts = []
    for _ in range(ANSWERS):
        proxy.process.terminate()
        proxy.process.wait()
        starts.append(seconds_of(start_and_read, proxy, tagged))
    more = [through - without for without, through in pairs]
    print(f"a manifest takes {median(more) * 1000:.0f} ms more, at most {max(more) * 1000:.0f}")
    print(f"with the start of the proxy {median(starts) * 1000:.0f} ms, at most {max(starts) * 1000:.0f}")


def start_and_read(proxy, url):
    proxy.start()
    read(url)


def read(url, context=None):
    headers = {"Authorization": f"Basic {credentials()}", "Accept": f"{INDEX}, {MANIFEST}"}
    urllib.request.urlopen(urllib.request.Request(url, headers=headers), context=context).read()


def measure_podman(directory, names, pairs):
    podman = Podman(engine_program("podman"), directory, engine_program("runc"), "/")
    podman.environment["SSL_CERT_FILE"] = os.environ["SSL_CERT_FILE"]
    options = ("--quiet", "--tls-verify=false", f"--creds={USER}:{PASSWORD}")
    measure_pulls("podman", lambda name: podman("pull", *options, name), lambda name: podman("rmi", name), names, pairs)


def measure_docker(directory, names, pairs, running):
    (directory / ".docker").mkdir()
    logins = {name.partition("/")[0]: {"auth": credentials()} for name in names}
    (directory / ".docker/config.json").write_text(json.dumps({"auths": logins}))
    docker = DockerOnLoopback(engine_program("runc"))
    running.callback(docker.stop)
    docker.start()
    measure_pulls(
        "docker", lambda name: docker("pull", "--quiet", name), lambda name: docker("rmi", name), names, pairs
    )


def measure_pulls(engine, pull, remove, names, pairs):
    """Print the time of pulls through the proxy relative to direct ones."""
    ratios = []
    for number in range(pairs):
        seconds = {}
        for name in names if number % 2 else reversed(names):
            seconds[name] = seconds_of(pull, name)
            remove(name)
        ratios.append(seconds[names[1]] / seconds[names[0]])
    shown = ", ".join(f"{ratio:.2f}" for ratio in sorted(ratios))
    print(f"{engine} through the proxy takes {median(ratios):.2f} times a direct pull ({shown})", flush=True)


def seconds_of(function, *words):
    began = time.monotonic()
    function(*words)
    return time.monotonic() - began


if __name__ == "__main__":
    main(sys.argv[1:])
