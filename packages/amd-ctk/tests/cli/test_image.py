"""amd-ctk image, gpu query and swarm constraint, as commands."""

from __future__ import annotations

import json

import pytest

IMAGE = "opt/rocm/lib/rocblas/library"
SILENT = "no file name names a target (--deep looks into programs and libraries)"


@pytest.fixture
def image(tmp_path):
    """Return a function that makes a root file system with code for some targets."""

    def make(*targets):
        directory = tmp_path / "image" / IMAGE
        directory.mkdir(parents=True)
        for target in targets:
            (directory / f"Tensile_{target}.co").touch()
        return f"dir:{tmp_path}/image"

    return make


def test_targets_are_one_line_an_image(host, amd_ctk, image, tmp_path):
    host()
    (tmp_path / "empty").mkdir()
    with_code = image("gfx1100", "gfx90a")

    answer = amd_ctk("image", "targets", with_code, f"dir:{tmp_path}/empty")

    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == f"{with_code}: gfx90a gfx1100\ndir:{tmp_path}/empty: {SILENT}\n"


def test_an_image_that_fits_ends_with_0(host, amd_ctk, image):
    host("mi210-4")

    answer = amd_ctk("image", "check", image("gfx90a", "gfx942"))

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "fits\n", "")


def test_an_image_that_does_not_fit_ends_with_1(host, amd_ctk, image):
    host("strix-halo")

    answer = amd_ctk("image", "check", image("gfx900", "gfx90a", "gfx1100"))

    assert (answer.returncode, answer.stderr) == (1, "")
    assert answer.stdout == "does not fit: GPU 0 is gfx1151, the image has code for gfx900 gfx90a gfx1100\n"


def test_only_the_gpus_that_are_asked_for_count(host, amd_ctk, image):
    host("rx7900xtx-raphael")
    code = image("gfx1100")

    assert amd_ctk("image", "check", code).returncode == 1
    assert (
        amd_ctk("image", "check", code, "--gpus=0").returncode + amd_ctk("image", "check", code, "--gpus=1").returncode
        == 1
    )


def test_an_image_is_checked_for_a_target_that_this_host_does_not_have(host, amd_ctk, image):
    host("no-driver")
    code = image("gfx90a")

    answers = [amd_ctk("image", "check", code, f"--for={target}") for target in ("gfx90a", "gfx942", "mi300x")]
    both = amd_ctk("image", "check", code, "--for=gfx942", "--gpus=0")

    assert [(answer.returncode, answer.stdout, answer.stderr) for answer in (*answers, both)] == [
        (0, "fits\n", ""),
        (1, "does not fit: the image has code for gfx90a\n", ""),
        (2, "", "'mi300x' is not the target of a GPU (write it as in gfx942)\n"),
        (2, "", "--gpus names GPUs of this host, which --for does not ask (leave one of them out)\n"),
    ]


def test_gpus_are_also_asked_for_by_what_they_are(host, amd_ctk, image):
    host("rx7900xtx-raphael")
    code = image("gfx1100")

    answers = [amd_ctk("image", "check", code, f"--gpus={gpus}") for gpus in ("all+discrete", "auto:1")]

    assert [(answer.returncode, answer.stdout) for answer in answers] == [(0, "fits\n"), (2, "")]
    assert answers[1].stderr == (
        "auto:1 depends on which GPUs are in use, which does not count here"
        " (name GPUs, or write all with conditions, such as all+gfx942)\n"
    )


def test_an_image_of_which_nothing_is_known_ends_with_2(host, amd_ctk, image):
    host()

    answer = amd_ctk("image", "check", image())

    assert (answer.returncode, answer.stderr) == (2, "")
    assert answer.stdout == (
        "not known: no file name in the image names a target (--deep looks into programs and libraries),"
        " and it does not say what it is for\n"
    )


def test_a_check_with_deep_does_not_advise_deep(host, amd_ctk, image):
    host()
    name = image()

    assert amd_ctk("image", "targets", "--deep", name).stdout == f"{name}: no code for a GPU was found\n"
    assert amd_ctk("image", "check", "--deep", name).stdout == (
        "not known: the image has no code for a GPU, and it does not say what it is for\n"
    )


def test_to_pick_among_images_that_say_nothing_ends_with_2(host, amd_ctk, tmp_path):
    host()
    index = tmp_path / "index.json"
    images = [{"digest": f"sha256:{number:064x}"} for number in range(2)]
    index.write_text(json.dumps({"manifests": images}))

    answer = amd_ctk("image", "pick", index)

    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.splitlines()[-1] == "none of 2 images says what it is for"


def test_an_image_that_cannot_be_read_ends_with_2(host, amd_ctk, tmp_path):
    host()

    answer = amd_ctk("image", "check", f"oci:{tmp_path}/none")

    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == f"{tmp_path}/none/index.json cannot be read: it does not exist\n"


@pytest.mark.parametrize(
    ("profile", "words", "says"),
    [
        ("no-driver", [], "amdgpu driver unavailable: "),
        ("mi210-4", ["--gpus=7"], "GPU 7"),
    ],
)
def test_a_host_that_cannot_be_judged_by_ends_with_2(profile, words, says, host, amd_ctk, image, tmp_path):
    host(profile)
    (tmp_path / "index.json").write_text('{"manifests": [{}]}')

    checked = amd_ctk("image", "check", image("gfx90a"), *words)
    picked = amd_ctk("image", "pick", tmp_path / "index.json", *words)

    assert (checked.returncode, checked.stdout) == (picked.returncode, picked.stdout) == (2, "")
    assert says in checked.stderr
    assert checked.stderr == picked.stderr


def test_an_index_without_images_is_no_answer(host, amd_ctk, tmp_path):
    host("mi210-4")
    (tmp_path / "index.json").write_text('{"manifests": []}')

    answer = amd_ctk("image", "pick", tmp_path / "index.json")

    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == f"{tmp_path}/index.json has no image for amd64\n"


def test_the_best_image_is_the_answer_and_why_not_the_others_is_conversation(host, amd_ctk, tmp_path):
    host("mi210-4")
    index = tmp_path / "index.json"
    targets = {"sha256:aa": "gfx942", "sha256:bb": "gfx90a"}
    index.write_text(
        json.dumps(
            {
                "manifests": [
                    {"digest": digest, "annotations": {"com.amd.gpu.targets": target}}
                    for digest, target in targets.items()
                ]
            }
        )
    )

    answer = amd_ctk("image", "pick", index)

    assert (answer.returncode, answer.stdout) == (0, f"{index}@sha256:bb\n")
    assert answer.stderr == f"{index}@sha256:aa: GPU 0 is gfx90a, the image says it is for gfx942\n"


def test_an_index_without_an_image_that_fits_ends_with_1_and_all_reasons(host, amd_ctk, tmp_path):
    host("mi210-4")
    entries = [
        {"digest": "sha256:aa", "annotations": {"com.amd.gpu.targets": "gfx942"}},
        {"annotations": {"org.opencontainers.image.ref.name": "b"}},
    ]
    index = tmp_path / "index.json"
    index.write_text(json.dumps({"manifests": entries}))

    answer = amd_ctk("image", "pick", index)

    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == (
        f"{index}@sha256:aa: GPU 0 is gfx90a, the image says it is for gfx942\n"
        f"{index}:b: it does not say what it is for\n"
        "none of 2 images fits\n"
    )


@pytest.mark.parametrize(
    ("index", "says"),
    [
        ("nosuch.json", "nosuch.json cannot be read: it does not exist"),
        ("user:secret@host.example/app", "...@host.example/app cannot be read: it does not exist"),
        ("docker://user:se/cret@host.example/app", "...@host.example/app does not name an image in a registry"),
    ],
)
def test_an_index_that_was_written_wrong_asks_no_registry_and_shows_no_password(index, says, host, amd_ctk):
    host("mi210-4")

    answer = amd_ctk("image", "pick", index)

    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith(says)


def test_a_password_in_the_name_of_an_image_is_not_shown(host, amd_ctk):
    host("mi210-4")

    answer = amd_ctk("image", "check", "user:secret@host.example/app")

    assert answer.returncode == 2
    assert answer.stderr.startswith("...@host.example/app does not name an image (write ")


def test_the_name_of_an_index_is_checked_before_any_image_is_read(host, amd_ctk):
    host()

    answer = amd_ctk("image", "index", "No Name", "--from=app:1")

    assert answer.returncode == 2
    assert answer.stderr.startswith("No Name does not name an image in a registry (")


def test_to_pick_from_nothing_is_refused(host, amd_ctk):
    host()

    answer = amd_ctk("image", "pick")

    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == "there is nothing to pick from (give INDEX, such as registry.example/app:1.0)\n"


@pytest.mark.parametrize(
    ("profile", "text", "lines"),
    [
        ("mi210-4", "{gfx}", ["gfx90a"]),
        ("mi210-4", "{number}: {model} {family} {vram}", [f"{number}: MI210 gfx90X 65520" for number in range(4)]),
        ("mi300x-8-cpx", "{partition}", ["CPX-NPS4"]),
        (
            "mi210-4",
            "{uuid} {render}",
            [
                "GPU-ea35f57cc80deb35 /dev/dri/renderD130",
                "GPU-89caa15875ff5a43 /dev/dri/renderD131",
                "GPU-6e32f10efc982b4c /dev/dri/renderD129",
                "GPU-012fe4f7fdaf06b9 /dev/dri/renderD128",
            ],
        ),
        ("strix-halo", "{uuid}{render}", ["/dev/dri/renderD128"]),
        ("mi308x-8-cpx", "{driver} {rocm}", ["6.12.12 6.4"]),
        ("strix-halo", "{gfx} [{driver}]", ["gfx1151 []"]),
    ],
)
def test_a_fact_is_printed_once_for_gpus_that_are_alike(profile, text, lines, host, amd_ctk):
    host(profile)

    answer = amd_ctk("gpu", "query", "--format", text)

    assert (answer.returncode, answer.stdout.splitlines(), answer.stderr) == (0, lines, "")


def test_a_fact_that_does_not_exist_is_refused(host, amd_ctk):
    host()

    answer = amd_ctk("gpu", "query", "--format", "{colour}")

    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == (
        "there is no field {colour} (the fields are {number}, {gfx}, {family}, {model}, {vram}, {partition}, {pci},"
        " {uuid}, {render}, {driver}, {rocm}, {kernel}, {cpu})\n"
    )


def test_labels_are_those_of_amds_node_labeller(host, amd_ctk):
    host("mi300x-8")

    assert amd_ctk("gpu", "query", "--format", "labels").stdout == (
        "amd.com/gpu.device-id=74a1\n"
        "amd.com/gpu.vram=192G\n"
        "amd.com/gpu.cu-count=304\n"
        "amd.com/gpu.driver-version=6.8.5\n"
        "amd.com/compute-memory-partition=spx_nps1\n"
    )


def test_features_are_a_file_for_node_feature_discovery(host, amd_ctk):
    host("mi210-4")

    lines = amd_ctk("gpu", "query", "--format", "nfd", "--gpus=0-1").stdout.splitlines()

    assert [line for line in lines if not line.startswith("amd.gpu.cpu=")] == [
        "# +no-label",
        "amd.gpu.model=MI210",
        "amd.gpu.gfx=gfx90a",
        "amd.gpu.count=2",
        "amd.gpu.vram-mb=65520",
        "amd.gpu.driver=6.10.5",
        "amd.gpu.gfx.gfx90a=true",
        "amd.gpu.rocm.6.1=true",
        "amd.gpu.rocm.6.2=true",
        "amd.gpu.rocm.6.3=true",
        "amd.gpu.rocm.6.4=true",
    ]


def test_a_constraint_names_the_label_that_swarm_setup_gives(host, amd_ctk, image):
    host()
    code = image("gfx90a", "gfx942")

    answer = amd_ctk("swarm", "constraint", code)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == (
        "the image has code for gfx90a gfx942, and a constraint names one label (choose one with --gfx)\n"
    )

    assert amd_ctk("swarm", "constraint", code, "--gfx=gfx90a").stdout == (
        "--constraint node.labels.amd.gpu.gfx==gfx90a\n"
    )
    assert "amd.gpu.gfx=gfx90a" in amd_ctk("gpu", "query", "--format", "nfd").stdout
    assert amd_ctk("swarm", "constraint", code, "--gfx=gfx1100").stderr == (
        "the image has no code for gfx1100, it has code for gfx90a gfx942\n"
    )


def test_gpus_are_named_by_model_and_target_where_that_is_asked_for(host, amd_ctk):
    host("mi210-4")

    def names(*words):
        spec = json.loads(amd_ctk("cdi", "generate", "--output=-", *words).stdout)
        return {device["name"]: len(device["containerEdits"]["deviceNodes"]) for device in spec["devices"]}

    plain, named = names(), names("--by-model")

    assert {name: count for name, count in named.items() if name not in plain} == {"MI210": 9, "gfx90a": 9}
    assert {name: count for name, count in named.items() if name in plain} == plain
    amd_ctk("cdi", "generate", "--by-model")
    assert amd_ctk("cdi", "validate").stdout.endswith("CDI spec is valid\n")
    assert amd_ctk("cdi", "refresh").stdout == "CDI spec is up to date: /etc/cdi/amd.json\n"


def test_why_an_image_does_not_fit_is_json_too(host, amd_ctk, image):
    host("mi210-4")
    code = image("gfx942")

    answer = amd_ctk("image", "check", code, "--json")

    assert (answer.returncode, answer.stderr) == (1, "")
    assert json.loads(answer.stdout) == {
        "image": code,
        "fits": False,
        "targets": ["gfx942"],
        "reasons": ["GPU 0 is gfx90a, the image has code for gfx942"],
        "notes": [],
    }


def test_nothing_known_is_null_in_json(host, amd_ctk, image):
    host()

    answer = amd_ctk("image", "check", image(), "--json")

    assert (answer.returncode, json.loads(answer.stdout)["fits"]) == (2, None)


def test_compressed_code_that_cannot_be_read_is_reported(host, amd_ctk, tmp_path):
    host()
    (tmp_path / "root").mkdir()
    (tmp_path / "root/lib.so").write_bytes(b"\x7fELF" + b"CCOB" + bytes([9, 0, 1, 0]) + bytes(200))
    (tmp_path / "root/x_gfx90a.co").touch()

    answer = amd_ctk("image", "targets", "--deep", f"dir:{tmp_path}/root")
    judged = amd_ctk("image", "check", "--deep", f"dir:{tmp_path}/root")

    assert answer.stdout == f"dir:{tmp_path}/root: gfx90a\n"
    assert answer.stderr == "lib.so: compressed bundle: targets unknown\n"
    assert (judged.stdout, judged.stderr) == ("fits\n", answer.stderr)


def test_escape_sequences_of_an_index_do_not_reach_the_terminal(host, amd_ctk, tmp_path):
    host("mi210-4")
    annotations = {"com.amd.gpu.targets": "gfx90a", "org.opencontainers.image.ref.name": "a\x1b[2J"}
    (tmp_path / "index.json").write_text(json.dumps({"manifests": [{"annotations": annotations}]}))

    answer = amd_ctk("image", "pick", tmp_path / "index.json")

    assert answer.returncode == 0
    assert answer.stdout.rstrip("\n").isprintable()
