"""The lint session compares the size and the imports of each distribution with docs/maintain/scope.md."""

from __future__ import annotations

import pytest

from scope import main

TABLE = """
| `amd-ctk` | 1 | {most} | 2 | `amdgpu-discovery` | `amd-gpu-images` |
| `amdgpu-discovery` | 1 | 10 | 2 | none | none |
| `amd-gpu-images` | 1 | 10 | 2 | none | none |
"""


def check(tmp_path, capsys, source, *, most="1,000", distribution="amd-ctk"):
    root = tmp_path / "packages" / distribution / "src"
    root.mkdir(parents=True)
    (root / "module.py").write_text(source)
    page = tmp_path / "scope.md"
    page.write_text(TABLE.format(most=most))
    code = main([str(root)], page)
    return code, capsys.readouterr().out.replace(f"{root}/", "").splitlines()


def test_lines_within_the_limit_pass(tmp_path, capsys):
    assert check(tmp_path, capsys, "import os\n" * 3) == (0, ["amd-ctk: 3 lines of 1,000"])


def test_lines_above_the_limit_fail(tmp_path, capsys):
    assert check(tmp_path, capsys, "import os\n" * 3, most="2") == (
        1,
        [
            "amd-ctk: 3 lines of 2",
            "amd-ctk is 1 over its limit: raise it in scope.md, saying in the commit what users get",
        ],
    )


@pytest.mark.parametrize(
    ("flat", "problems"),
    [(2, []), (3, ["amd-ctk has 3 modules outside its folders, 2 are allowed"])],
)
def test_modules_outside_folders_are_counted_and_others_are_not(tmp_path, capsys, flat, problems):
    package = tmp_path / "packages/amd-ctk/src/amd_ctk"
    (package / "cdi").mkdir(parents=True)
    for path in [*(f"module{number}.py" for number in range(flat)), "cdi/specs.py", "cdi/listing.py", "cdi/watch.py"]:
        (package / path).write_text("")
    page = tmp_path / "scope.md"
    page.write_text(TABLE.format(most=10))

    code = main([str(package.parent)], page)

    assert (code, capsys.readouterr().out.splitlines()[1:]) == (1 if problems else 0, problems)


@pytest.mark.parametrize(
    "source",
    [
        "from amdgpu_discovery.host import Host",
        "def f():\n    from amd_gpu_images import read_targets",
        "if TYPE_CHECKING:\n    from amd_gpu_images import Upstream",
    ],
)
def test_imports_that_the_row_allows_pass(tmp_path, capsys, source):
    assert check(tmp_path, capsys, source)[0] == 0


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (
            "from amd_gpu_images import read_targets",
            "module.py:1: amd-gpu-images may not be installed: import it in the function that needs it",
        ),
        (
            "def f():\n    from amd_gpu_images.check import best",
            "module.py:2: import this from amd_gpu_images itself, which is the only door",
        ),
    ],
)
def test_other_ways_through_a_door_fail(tmp_path, capsys, source, problem):
    code, printed = check(tmp_path, capsys, source)

    assert (code, printed[1:]) == (1, [problem])


def test_an_import_that_no_row_allows_fails(tmp_path, capsys):
    code, printed = check(tmp_path, capsys, "def f():\n    import amd_ctk.cli", distribution="amdgpu-discovery")

    assert (code, printed[1:]) == (1, ["module.py:2: amdgpu-discovery may not import amd-ctk"])


def test_a_distribution_without_a_row_fails(tmp_path, capsys):
    assert check(tmp_path, capsys, "", distribution="amd-new") == (1, ["amd-new has no row in scope.md"])
