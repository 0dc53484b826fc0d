"""Images in registries as the programs that read them show them: recorded answers of fake programs on PATH."""

from __future__ import annotations

import hashlib
import json
import shlex
from types import SimpleNamespace

import pytest

from amd_gpu_images import reference
from amd_gpu_images.bounds import ImageError, Reading
from amd_gpu_images.reference import find_image, parse_reference
from amd_gpu_images.registries import registry, registry_programs
from amd_gpu_images.registries.registry import read_registry_entries, read_registry_image
from amd_gpu_images.registries.registry_name import is_registry_name, parse_registry_name
from amdgpu_discovery.command_line import programs

OCI_INDEX = "application/vnd.oci.image.index.v1+json"
PODMAN_5 = {"version --format {{.Client.Version}}": "5.4.2\n"}
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"


def digest(text):
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Return a function that makes a program, which has an answer for some lines of words, and fails with others."""
    (tmp_path / "bin").mkdir()
    # None of this machine's answers.
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")

    def make(name, answers, error="manifest unknown: manifest unknown"):
        cases = "".join(f"{shlex.quote(words)}) /bin/cat {save(text)} ;;\n" for words, text in answers.items())
        path = tmp_path / "bin" / name
        path.write_text(f"#!/bin/sh\ncase $* in\n{cases}*) echo {shlex.quote(error)} >&2; exit 1;;\nesac\n")
        path.chmod(0o755)

    def save(text):
        path = tmp_path / hashlib.sha256(text.encode()).hexdigest()
        path.write_text(text)
        return path

    return make


def index(*entries, kind=OCI_INDEX):
    return json.dumps({"schemaVersion": 2, "mediaType": kind, "manifests": list(entries)})


def refusal(name):
    with pytest.raises(ImageError) as caught:
        read_registry_entries(name)
    return str(caught.value)


def test_buildx_reads_indexes_and_configurations(program):
    manifest = '{"layers": []}'
    raw = "buildx imagetools inspect --raw"
    at = f"r.example/app@{digest(manifest)}"
    said = '{"config": {"Env": ["AMD_REQUIRE_GFX=gfx=gfx90a"]}}'
    program("docker", {
        "buildx version": "0.13",
        f"{raw} r.example/app:1": index({"digest": digest(manifest)}),
        f"{raw} {at}": manifest,
        f"buildx imagetools inspect --format {{{{json .Image}}}} {at}": said,
    })  # fmt: skip

    ((name, image),) = read_registry_entries("r.example/app:1")

    assert (name, image.environment) == (at, ("AMD_REQUIRE_GFX=gfx=gfx90a",))


def test_podman_5_shows_the_annotations_of_an_index(program):
    annotated = {"digest": digest("x"), "annotations": {"com.amd.gpu.targets": "gfx90a"}}
    program("podman", {**PODMAN_5, "manifest inspect r.example/app:1": index(annotated)})

    ((name, image),) = read_registry_entries("r.example/app:1")

    assert (name, image.annotations) == (f"r.example/app@{digest('x')}", {"com.amd.gpu.targets": "gfx90a"})


def test_a_list_of_podman_without_annotations_is_not_used(program):
    program("podman", {**PODMAN_5, "manifest inspect app:1": index({"digest": digest("x")}, kind=DOCKER_LIST)})

    assert refusal("app:1") == "podman drops the annotations of app:1 (install skopeo)"


@pytest.mark.parametrize(
    ("version", "found"),
    [("4.9.4-rhel\n", "Podman 4.9.4-rhel"), ("", "Podman does not say its version; one before 5")],
)
def test_podman_4_reads_no_registry(version, found, program):
    program("podman", {"version --format {{.Client.Version}}": version, "manifest inspect app:1": "{}"})

    assert refusal("app:1") == (
        f"{found} drops the annotations of an index (install skopeo, or Docker with buildx, or Podman 5)"
    )


WARNED = 'time="2026-11-27T09:00:00Z" level=warning msg="no systemd user session"\n'


@pytest.mark.parametrize(
    ("error", "how"),
    [
        ("Error: cannot open the database\nsee the manual", "Error: cannot open the database"),
        (f"{WARNED}Error: cannot open the database", "Error: cannot open the database"),
        ("", "exit code 1"),
    ],
)
def test_a_podman_that_fails_is_distinguished_from_one_without_a_version(error, how, program):
    program("podman", {}, error=error)

    assert refusal("app:1") == (
        f"'podman version' failed: {how} (see 'podman version', or install skopeo, or Docker with buildx, or Podman 5)"
    )


@pytest.mark.parametrize("before", ["", "WARNING: Error loading config file: /root/.docker/config.json: EOF\n"])
def test_a_docker_whose_buildx_fails_is_named_where_nothing_else_reads_registries(before, program):
    program("docker", {}, error=f"{before}docker: 'buildx' is not a docker command.\nSee 'docker --help'")

    assert refusal("app:1") == (
        "no program here reads registries, and 'docker buildx version' failed:"
        " docker: 'buildx' is not a docker command. (install skopeo, or Docker with buildx, or Podman 5)"
    )


def test_a_name_that_the_proxy_refuses_is_to_be_named_by_digest(program):
    said = "manifest unknown: no image for this host: AMD_REQUIRE_GFX=gfx=gfx1100: GPU 1 is gfx1036"
    program("skopeo", {}, error=f"reading manifest 1 in 127.0.0.1:505/app: {said}")

    assert refusal("r.example/app:1") == (
        "the image proxy of this host refuses r.example/app:1"
        " (name the index by the digest that 'amd-ctk image index' printed;"
        f" skopeo: reading manifest 1 in 127.0.0.1:505/app: {said})"
    )


def test_layers_are_read_by_skopeo_alone(program):
    program("podman", {**PODMAN_5, "manifest inspect app:1": '{"layers": []}'})

    with pytest.raises(ImageError) as caught:
        read_registry_image("app:1", Reading(), with_layers=True)

    assert str(caught.value) == (
        "only skopeo reads layers in a registry (install it, or 'podman pull app:1' and name podman:app:1)"
    )


def test_an_answer_with_another_digest_is_refused(program):
    program("skopeo", {f"inspect --raw docker://app@{digest('asked')}": "{}"})

    assert refusal(f"app@{digest('asked')}") == (
        f"app@{digest('asked')} has another digest in the registry: {digest('{}')}"
    )


def test_a_digest_of_an_index_becomes_no_word_of_a_command(program):
    program("skopeo", {"inspect --raw docker://app:1": index({"digest": "--output=/etc/passwd"})})

    assert refusal("app:1") == "an entry of the index has no sha256 or sha512 digest"


def test_an_index_of_ten_thousand_that_say_nothing_ends_in_bounded_questions(program, monkeypatch):
    monkeypatch.setattr(registry_programs, "MOST_QUESTIONS", 3)
    entries = [{"digest": digest("{}")} for _ in range(10_000)]
    program("skopeo", {
        "inspect --raw docker://app:1": index(*entries),
        f"inspect --raw docker://app@{digest('{}')}": "{}",
        f"inspect --config --raw docker://app@{digest('{}')}": "{}",
    })  # fmt: skip

    assert refusal("app:1").endswith(" takes more than 120 seconds, or 3 questions")


def test_a_manifest_of_any_length_is_not_read(program):
    program("skopeo", {"inspect --raw docker://app:1": "x" * 5_000_000})

    assert refusal("app:1") == "app:1 cannot be read: skopeo printed more than 4 MiB"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ('time="2026-01-01T00:00:00Z" level=fatal msg="Error parsing image name \\"docker://app:1\\": denied"',
         ("app:1 does not exist, or you are not logged in to its registry (skopeo login docker.io;"
         ' skopeo: Error parsing image name "docker://app:1": denied)')),
        ("reading manifest 1 in app: manifest unknown",
         "there is no image app:1 (skopeo: reading manifest 1 in app: manifest unknown)"),
        ("dial tcp: lookup r.example: no such host",
         "the registry of app:1 cannot be reached (skopeo: dial tcp: lookup r.example: no such host)"),
        ("\x1b[31mtoomanyrequests", "app:1 cannot be read (skopeo: ?[31mtoomanyrequests)"),
    ],
)  # fmt: skip
def test_skopeos_failure_becomes_a_sentence(words, says, program):
    program("skopeo", {}, error=words)

    assert refusal("app:1") == says


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("plain:404", "reading manifest 404 in docker.io/library/plain: received unexpected HTTP status: 503"),
        ("denied:1", "reading manifest 1 in docker.io/library/denied: received unexpected HTTP status: 503"),
        ("denied", "reading manifest latest in denied: received unexpected HTTP status: 503"),
        (f"app@sha256:404{'a' * 61}", f"reading manifest sha256:404{'a' * 61} in app: toomanyrequests"),
        ("forbidden.example/app:1", "lookup forbidden.example: server misbehaving"),
    ],
)
def test_a_name_of_an_image_is_not_the_reason_why_it_cannot_be_read(name, words, program):
    program("skopeo", {}, error=words)

    assert refusal(name) == f"{name} cannot be read (skopeo: {words})"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("fetching blob: invalid status code from registry, status code 404", "there is no image denied:1"),
        ("Head https://r.example/v2/denied: dial tcp 192.0.2.1:443: i/o timeout",
         "the registry of denied:1 cannot be reached"),
        ("requested access to the resource is denied",
         "denied:1 does not exist, or you are not logged in to its registry"),
    ],
)  # fmt: skip
def test_the_reason_is_found_beside_the_name(words, says, program):
    program("skopeo", {}, error=words)

    assert refusal("denied:1").startswith(f"{says} (")
    assert refusal("denied:1").endswith(f"skopeo: {words})")


def test_skopeo_unpacks_no_layer_that_takes_half_of_the_room(program, tmp_path, monkeypatch):
    at = f"docker://app@{digest('{}')}"
    program("skopeo", {"inspect --raw docker://app:1": "{}", f"inspect --config --raw {at}": "{}"})
    skopeo = tmp_path / "bin/skopeo"
    copy = (
        f"trap '' XFSZ; sleep 0.5; /bin/dd if=/dev/zero of={tmp_path}/blob bs=1M count=8 2>/dev/null ||"
        " echo 'writing to temporary on-disk layer: write /var/tmp/stream-blob1: file too large' >&2; exit 1"
    )
    skopeo.write_text(skopeo.read_text().replace("case $* in\n", f"case $* in\ncopy*) {copy};;\n"))
    (tmp_path / "bin/sleep").symlink_to("/bin/sleep")
    monkeypatch.setattr(registry.shutil, "disk_usage", lambda _: SimpleNamespace(free=2 * 1024 * 1024))

    with pytest.raises(ImageError) as caught:
        read_registry_image("app:1", Reading(), with_layers=True)

    assert (tmp_path / "blob").stat().st_size == 1024 * 1024
    assert str(caught.value) == (
        f"a layer of {at} takes more than 0.0 GiB, half of the free space in /var/tmp"
        " (free some space there, or pull the image and name docker:NAME or podman:NAME)"
    )


def test_a_host_without_the_directory_in_which_skopeo_unpacks_layers_is_told_so(program, monkeypatch):
    program(
        "skopeo",
        {"inspect --raw docker://app:1": "{}", f"inspect --config --raw docker://app@{digest('{}')}": "{}"},
    )
    monkeypatch.setattr(registry, "SCRATCH", "/nowhere")

    with pytest.raises(ImageError) as caught:
        read_registry_image("app:1", Reading(), with_layers=True)

    assert str(caught.value) == (
        "skopeo cannot unpack layers in /nowhere: it does not exist (make it with: sudo install -d -m 1777 /nowhere)"
    )


def test_the_size_that_is_announced_is_that_of_layers_with_a_size(program, capfd):
    manifest = json.dumps({"layers": [{"size": 2**30}, {"size": -(2**40)}, {"size": "1"}, {}]})
    at = f"app@{digest(manifest)}"
    program("skopeo", {"inspect --raw docker://app:1": manifest, f"inspect --config --raw docker://{at}": "{}"})

    with pytest.raises(ImageError):
        read_registry_image("app:1", Reading(), with_layers=True)

    assert capfd.readouterr().err == f"reading the layers of {at}: 1.0 GiB\n"


NO_ACCESS = "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock"
CALL = 'Get "http://%2Fvar%2Frun%2Fdocker.sock/v1.47/images/app/json": dial unix: connect: permission denied'


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ("Error response from daemon: No such image: rocm/app:1", ""),
        ("Error: rocm/app:1: image not known", ""),
        *(
            (
                said,
                f"docker could not be asked for rocm/app:1: {NO_ACCESS} (run it with sudo, or join the group docker)\n",
            )
            for said in (NO_ACCESS, f"{NO_ACCESS}: {CALL}")
        ),
    ],
)
def test_a_store_that_gives_no_answer_is_reported_before_a_registry_is_read(error, says, program, capfd):
    program("docker", {}, error=error)

    assert str(find_image(parse_reference("rocm/app:1"))) == "docker://rocm/app:1"
    assert capfd.readouterr().err == f"{says}reading rocm/app:1 in the registry docker.io\n"


def test_a_store_that_gives_no_answer_is_not_said_if_another_has_the_image(program, capfd, monkeypatch):
    monkeypatch.setattr(reference, "is_podman_set_up", lambda: True)
    program("docker", {}, error=NO_ACCESS)
    program("podman", {"image inspect --format {{.Id}} rocm/app:1": "0123"})

    assert str(find_image(parse_reference("rocm/app:1"))) == "podman:rocm/app:1"
    assert capfd.readouterr().err == ""


def test_a_name_is_found_in_the_store_of_an_engine_first(program, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (tmp_path / "containers/storage").mkdir(parents=True)
    program("podman", {"image inspect --format {{.Id}} rocm/pytorch": "0123"})
    program("docker", {}, error="Error: No such image: rocm/pytorch")

    assert str(find_image(parse_reference("rocm/pytorch"))) == "podman:rocm/pytorch"
    assert str(find_image(parse_reference("rocm/other"))) == "docker://rocm/other"


def test_a_podman_that_was_never_used_is_not_set_up_for_a_name(program, monkeypatch):
    monkeypatch.setattr(programs, "_podman_storage", lambda: iter(["/nowhere"]))
    program("podman", {"image inspect --format {{.Id}} app": "0123"})
    program("docker", {}, error="Error: No such image: app")

    assert str(find_image(parse_reference("app"))) == "docker://app"


@pytest.mark.parametrize(
    ("text", "registry", "whole"),
    [
        ("app", "docker.io", "app"),
        ("rocm/pytorch:latest", "docker.io", "rocm/pytorch:latest"),
        ("localhost/app", "localhost", "localhost/app"),
        ("r.example:5000/a/b__c:1.0-x", "r.example:5000", "r.example:5000/a/b__c:1.0-x"),
        (f"r.example/app:1@sha256:{'a' * 64}", "r.example", f"r.example/app@sha256:{'a' * 64}"),
    ],
)
def test_names_are_read_as_engines_read_them(text, registry, whole):
    name = parse_registry_name(text)

    assert (name.registry, str(name)) == (registry, whole)


@pytest.mark.parametrize("text", ["", "-v", "App", "a//b", "a:", "a@sha256:b", "a b", "a:1\n", "ä", "../a"])
def test_other_words_are_no_names(text):
    assert not is_registry_name(text)
