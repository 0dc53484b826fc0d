"""Images by their names in a registry that wants a password and has a certificate of its own."""

from __future__ import annotations

import io
import subprocess
import tarfile

import pytest

from amdgpu_simulator import build_host
from support.installed import engine_program, our_program
from support.registry import Registry, free_port, log_in

pytestmark = pytest.mark.e2e

TOLD = {"com.amd.gpu.targets": "gfx942"}
AMD64 = {"architecture": "amd64", "os": "linux"}


def archive(*paths):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as packed:
        for path in paths:
            packed.addfile(tarfile.TarInfo(path))
    return buffer.getvalue()


def entry(descriptor, targets=""):
    annotations = {"annotations": {"com.amd.gpu.targets": targets}} if targets else {}
    return {**descriptor, "platform": AMD64, **annotations}


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """Return a registry with password and TLS, in which app:1 is an index of two images."""
    running = Registry(tmp_path_factory.mktemp("registry"), has_login=True, has_tls=True)
    running.first = running.push("app:1-gfx90a", archive("opt/rocm/lib/x_gfx90a.co"))
    running.second = running.push("app:1-gfx942", archive("opt/rocm/lib/x_gfx942.co"))
    running.push_index("app:1", entry(running.first, "gfx90a"), entry(running.second, "gfx942"))
    yield running
    running.stop()


@pytest.fixture
def amd_ctk(registry, tmp_path):
    """Return a function that runs amd-ctk on a simulated host, as a person who is logged in and has one program."""
    log_in(tmp_path, registry.address)

    def run(*words, profile="mi210-4", program="skopeo", **environment):
        root, path = tmp_path / profile, tmp_path / f"only-{program}"
        if not root.exists():
            build_host(root, profile)
        path.mkdir(exist_ok=True)
        if program and not (path / program).exists():
            (path / program).symlink_to(engine_program(program))
        given = {
            "PATH": str(path),
            "HOME": str(tmp_path),
            "SSL_CERT_FILE": str(registry.certificate),
            "AMD_CTK_HOST_ROOT": str(root),
            **environment,
        }
        return subprocess.run(
            [our_program("amd-ctk"), "image", *words], env=given, capture_output=True, text=True, check=False
        )

    return run


@pytest.mark.parametrize(("profile", "number"), [("mi210-4", 0), ("mi300x-8", 1)])
def test_each_host_picks_its_image_of_one_name(registry, amd_ctk, profile, number):
    answer = amd_ctk("pick", f"{registry.address}/app:1", profile=profile)

    chosen = (registry.first, registry.second)[number]["digest"]
    assert (answer.returncode, answer.stdout) == (0, f"{registry.address}/app@{chosen}\n")


def test_where_no_image_fits_each_has_its_reason(registry, amd_ctk):
    answer = amd_ctk("pick", "--json", f"docker://{registry.address}/app:1", profile="strix-halo")

    assert answer.returncode == 1
    assert (
        answer.stdout
        == f"""\
{{
  "picked": null,
  "images": [
    {{
      "image": "{registry.address}/app@{registry.first["digest"]}",
      "fits": false,
      "reason": "GPU 0 is gfx1151, the image says it is for gfx90a"
    }},
    {{
      "image": "{registry.address}/app@{registry.second["digest"]}",
      "fits": false,
      "reason": "GPU 0 is gfx1151, the image says it is for gfx942"
    }}
  ]
}}
"""
    )


def test_an_index_that_says_nothing_is_judged_by_what_its_images_say(registry, amd_ctk):
    required = registry.push("told:gfx90a", config={"Env": ["AMD_REQUIRE_GFX=gfx=gfx90a"]})
    labelled = registry.push("told:gfx942", config={"Labels": {"com.amd.gpu.targets": "gfx942"}})
    annotated = registry.push("told:gfx1100", annotations={"com.amd.gpu.targets": "gfx1100"})
    registry.push_index("told:1", entry(annotated), entry(labelled), entry(required))

    assert amd_ctk("pick", f"{registry.address}/told:1").stdout == f"{registry.address}/told@{required['digest']}\n"
    assert amd_ctk("pick", f"{registry.address}/told:1", profile="mi300x-8").stdout == (
        f"{registry.address}/told@{labelled['digest']}\n"
    )


def test_an_index_in_an_index_is_a_choice_too(registry, amd_ctk):
    inner = registry.push_index("app:inner", entry(registry.second, "gfx942"))
    registry.push_index("app:outer", inner)

    answer = amd_ctk("pick", f"{registry.address}/app:outer", profile="mi300x-8")

    assert answer.stdout == f"{registry.address}/app@{registry.second['digest']}\n"


def test_one_image_is_picked_or_refused_like_many(registry, amd_ctk):
    only = registry.push("only:1", config={"Env": ["AMD_REQUIRE_GFX=gfx=gfx90a"]})

    assert amd_ctk("pick", f"{registry.address}/only:1").stdout == f"{registry.address}/only@{only['digest']}\n"
    assert amd_ctk("pick", f"{registry.address}/only:1", profile="mi300x-8").returncode == 1


def test_targets_are_read_from_layers_in_the_registry(registry, amd_ctk):
    answer = amd_ctk("targets", f"docker://{registry.address}/app:1-gfx90a")

    assert (answer.returncode, answer.stdout) == (0, f"docker://{registry.address}/app:1-gfx90a: gfx90a\n")
    assert answer.stderr == f"reading the layers of {registry.address}/app@{registry.first['digest']}: 0.0 GiB\n"


def test_an_image_that_says_what_it_is_for_is_checked_without_its_layers(registry, amd_ctk):
    registry.push("says:1", archive("opt/x_gfx942.co"), config={"Env": ["AMD_REQUIRE_GFX=gfx=gfx90a"]})

    answer = amd_ctk("check", f"{registry.address}/says:1")

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "fits\n", "")


def test_an_image_that_says_nothing_is_checked_by_its_layers(registry, amd_ctk):
    answer = amd_ctk("check", f"{registry.address}/app:1-gfx90a", profile="mi300x-8")

    assert answer.returncode == 1
    assert answer.stdout == "does not fit: GPU 0 is gfx942, the image has code for gfx90a\n"


def test_an_index_of_several_is_not_checked_but_picked_from(registry, amd_ctk):
    answer = amd_ctk("check", f"{registry.address}/app:1")

    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == (
        f"{registry.address}/app:1 has 2 images"
        f" ('amd-ctk image pick {registry.address}/app:1' names the one that fits by its digest)\n"
    )


def test_images_that_were_joined_are_found_by_one_name(registry, amd_ctk):
    name = f"{registry.address}/app"
    needs = {"Env": ["AMD_REQUIRE_ROCM=rocm>=6.0", "AMD_REQUIRE_CPU=cpu>=x86-64-v1"]}
    other = registry.push("elsewhere:gfx942", archive("opt/x_gfx942.co"), config={**needs, "Labels": TOLD})

    joined = amd_ctk(
        *("index", f"{name}:joined", f"--from={name}:1-gfx90a", f"--from={registry.address}/elsewhere:gfx942")
    )

    assert joined.returncode == 0
    assert (
        joined.stderr
        == f"""\
reading the layers of {name}@{registry.first["digest"]}: 0.0 GiB
{name}:1-gfx90a: com.amd.gpu.targets=gfx90a
{registry.address}/elsewhere:gfx942: com.amd.gpu.targets=gfx942 com.amd.gpu.require.rocm=rocm>=6.0 \
com.amd.gpu.require.cpu=cpu>=x86-64-v1
copying {registry.address}/elsewhere@{other["digest"]} to {name}
"""
    )
    assert joined.stdout.startswith(f"{name}@sha256:")
    assert amd_ctk("pick", f"{name}:joined").stdout == f"{name}@{registry.first['digest']}\n"
    assert amd_ctk("pick", joined.stdout.strip(), profile="mi300x-8").stdout == f"{name}@{other['digest']}\n"
    assert amd_ctk("pick", f"{name}:joined", profile="strix-halo").returncode == 1


def test_an_image_that_says_nothing_cannot_be_joined(registry, amd_ctk):
    registry.push("silent:1", archive("bin/sh"))

    answer = amd_ctk("index", f"{registry.address}/app:refused", f"--from={registry.address}/silent:1")

    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.splitlines()[-1] == (
        f"{registry.address}/silent:1 does not say what it is for, and no file name names a target"
        " (build it with ENV AMD_REQUIRE_GFX=gfx=..., or look into its programs with --deep)"
    )
    assert amd_ctk("pick", f"{registry.address}/app:refused").returncode == 2


def test_a_requirement_without_meaning_cannot_be_joined(registry, amd_ctk):
    registry.push("wrong:1", config={"Env": ["AMD_REQUIRE_X=colour=red"]})

    answer = amd_ctk("index", f"{registry.address}/app:refused", f"--from={registry.address}/wrong:1")

    assert answer.returncode == 2
    assert answer.stderr == (
        f"{registry.address}/wrong:1 cannot be in an index: com.amd.gpu.require.x=colour=red: there is no property"
        " 'colour'; the properties are cpu, driver, gfx, gpus, kernel, partition, rocm, vram\n"
    )


def test_an_index_is_written_by_skopeo_alone(registry, amd_ctk):
    answer = amd_ctk("index", f"{registry.address}/app:2", "--from=app:1", program="podman")

    assert answer.returncode == 2
    assert answer.stderr == "only skopeo writes an index, and it is not installed (install skopeo)\n"


def test_a_name_that_the_registry_does_not_have_is_said_to_be_missing(registry, amd_ctk):
    answer = amd_ctk("pick", f"{registry.address}/app:none")

    assert answer.returncode == 2
    assert answer.stderr.startswith(f"there is no image {registry.address}/app:none (skopeo: ")


def test_people_who_are_not_logged_in_are_told_how(registry, amd_ctk, tmp_path):
    (tmp_path / ".docker/config.json").unlink()

    answer = amd_ctk("pick", f"{registry.address}/app:1")

    assert answer.returncode == 2
    assert answer.stderr.startswith(
        f"{registry.address}/app:1 does not exist, or you are not logged in to its registry"
        f" (skopeo login {registry.address}; skopeo: "
    )


def test_a_registry_that_does_not_answer_is_said_to_be_out_of_reach(amd_ctk):
    name = f"localhost:{free_port()}/app:1"

    answer = amd_ctk("pick", name)

    assert answer.returncode == 2
    assert answer.stderr.startswith(f"the registry of {name} cannot be reached (skopeo: ")
    assert "connection refused" in answer.stderr


def test_a_certificate_that_is_not_trusted_stands_in_the_answer(registry, amd_ctk):
    answer = amd_ctk("pick", f"{registry.address}/app:1", SSL_CERT_FILE="/dev/null")

    assert answer.returncode == 2
    assert "certificate signed by unknown authority" in answer.stderr


def test_a_mirror_of_the_machine_is_used(registry, amd_ctk, tmp_path):
    mirrors = f'[[registry]]\nprefix = "registry.example/team"\nlocation = "{registry.address}"\n'
    settings = tmp_path / ".config/containers"
    settings.mkdir(parents=True)
    (settings / "registries.conf").write_text(mirrors)

    answer = amd_ctk("pick", "registry.example/team/app:1")

    assert answer.stdout == f"registry.example/team/app@{registry.first['digest']}\n"


def test_podman_4_is_not_used_because_it_leaves_annotations_out(registry, amd_ctk):
    answer = amd_ctk("pick", f"{registry.address}/app:1", program="podman")

    if answer.returncode == 0:
        pytest.skip("this Podman is newer")
    assert answer.stderr.startswith("Podman 4.")
    assert answer.stderr.endswith(
        " drops the annotations of an index (install skopeo, or Docker with buildx, or Podman 5)\n"
    )


def test_without_a_program_that_reads_registries_it_is_said_which_to_install(registry, amd_ctk):
    answer = amd_ctk("pick", f"{registry.address}/app:1", program="")

    assert answer.returncode == 2
    assert answer.stderr == ("no program here reads registries (install skopeo, or Docker with buildx, or Podman 5)\n")
