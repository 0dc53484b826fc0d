"""ROCm as Debian builds it, in images made by tools of Debian: the targets found are those that the packages have."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from support.code_objects import targets_of_code
from support.debian_packages import DebianRelease, NoNetwork
from support.engines_page import EngineAnswers
from support.installed import our_program, require_programs, require_root

# A package of 2 GB is packed and unpacked several times.
pytestmark = [pytest.mark.e2e, pytest.mark.images, pytest.mark.timeout(3600)]

# Older releases of Debian have no rocBLAS.
SUITE = "trixie"
# Code in files that are named for their targets, and code inside of libraries.
BY_NAMES = ("librocblas0",)
INSIDE = ("librocfft0", "librocrand1")
# It calls other libraries, which have the code.
WITHOUT_CODE = "librocalution0"
# Debian's ROCm is older than every generic target and gfx950.
NAME = re.compile(r"gfx[0-9a-f]+(?=[-_.a-z0-9]*\.(?:co|dat|hsaco)$)")


@pytest.fixture(scope="module")
def answers():
    """Return what notes a row of the table in docs/maintain/test-results.md, which is written if asked for."""
    answers = EngineAnswers("images")
    yield answers
    if page := os.environ.get("AMD_IMAGES_PAGE"):
        answers.write_into(page)


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """Return the release that packages come from."""
    require_root()
    require_programs("umoci", "skopeo", "dpkg-deb")
    try:
        return DebianRelease(SUITE, tmp_path_factory.mktemp("apt"))
    except NoNetwork as error:
        pytest.skip(f"the archive of Debian cannot be reached: {error}")


class Package:
    """A package, unpacked and in an OCI image layout that umoci made."""

    def __init__(self, release, name, directory):
        self.name = name
        self.deb = release.download(name)
        self.version = run("dpkg-deb", "--field", self.deb, "Version").strip()
        self.root = directory / "root"
        run("dpkg-deb", "--extract", self.deb, self.root)
        self.layout = directory / "layout"
        run("umoci", "init", "--layout", self.layout)
        run("umoci", "new", "--image", f"{self.layout}:made")
        run("umoci", "insert", "--image", f"{self.layout}:made", self.root / "usr", "/usr")


@pytest.fixture(scope="module")
def package(release, tmp_path_factory):
    """Return a function that downloads a package and makes an image of it, once."""
    made = {}

    def find(name):
        if name not in made:
            made[name] = Package(release, name, tmp_path_factory.mktemp(name))
        return made[name]

    yield find
    for each in made.values():
        shutil.rmtree(each.root)


def run(*words):
    return subprocess.run([*map(os.fspath, words)], stdout=subprocess.PIPE, text=True, check=True).stdout


def targets(reference, *options):
    answer = run(our_program("amd-ctk"), "image", "targets", *options, reference)
    return answer.removeprefix(f"{reference}: ").split()


def copy(package, to, *options):
    """Copy an image with skopeo."""
    run("skopeo", "copy", "--quiet", "--insecure-policy", *options, f"oci:{package.layout}:made", to)
    return to


def note(answers, package, question, found):
    answers.note(package.name, package.version, question, " ".join(found))


def by_length(found):
    return sorted(found, key=lambda target: (len(target), target))


@pytest.mark.parametrize("name", BY_NAMES)
def test_targets_are_those_of_the_packages_file_list(package, name, answers):
    made = package(name)

    found = targets(f"oci:{made.layout}:made")

    listed = {match for line in run("dpkg-deb", "--contents", made.deb).splitlines() for match in NAME.findall(line)}
    assert len(listed) > 5
    assert found == by_length(listed)
    note(answers, made, "file names, umoci (gzip)", found)


@pytest.mark.parametrize("name", INSIDE)
def test_targets_inside_of_libraries_are_those_of_their_code_objects(package, name, answers, tmp_path):
    made = package(name)
    code = by_length(targets_of_code(made.root))
    images = {
        "`--deep`, umoci (gzip)": f"oci:{made.layout}:made",
        "`--deep`, skopeo (zstd)": copy(made, f"oci:{tmp_path}/zstd:made", "--dest-compress-format=zstd"),
        "`--deep`, skopeo (docker-archive)": copy(made, f"docker-archive:{tmp_path}/saved.tar"),
        "`--deep`, unpacked": f"dir:{made.root}",
    }

    found = {question: targets(image, "--deep") for question, image in images.items()}

    assert len(code) > 5
    assert found == dict.fromkeys(images, code)
    for question, answer in found.items():
        note(answers, made, question, answer)


@pytest.mark.parametrize("name", INSIDE[:1])
def test_a_whiteout_that_umoci_writes_deletes_the_library(package, name, tmp_path):
    made = package(name)
    image = copy(made, f"oci:{tmp_path}/deleted:made")
    (library,) = [path for path in made.root.rglob("*.so*") if not path.is_symlink()]

    run("umoci", "insert", "--image", image.removeprefix("oci:"), "--whiteout", f"/{library.relative_to(made.root)}")
    assert " ".join(targets(image, "--deep")) == "no code for a GPU was found"


@pytest.mark.parametrize("name", INSIDE[:1])
def test_an_opaque_directory_that_umoci_writes_hides_the_library(package, name, tmp_path):
    made = package(name)
    image = copy(made, f"oci:{tmp_path}/hidden:made")
    (tmp_path / "empty").mkdir()

    words = ("--opaque", tmp_path / "empty", "/usr/lib")
    run("umoci", "insert", "--image", image.removeprefix("oci:"), *words)
    assert " ".join(targets(image, "--deep")) == "no code for a GPU was found"


def test_a_library_that_only_calls_others_has_no_code(package):
    made = package(WITHOUT_CODE)

    assert targets_of_code(made.root) == set()
    assert " ".join(targets(f"oci:{made.layout}:made", "--deep")) == "no code for a GPU was found"
