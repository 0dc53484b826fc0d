"""A spec that another installation made, as pip's copy beside the packages, is as good as one's own."""

from __future__ import annotations

import pytest

from amd_ctk.cdi.other_maker import accept_hooks, find_other_maker


@pytest.fixture
def installed(tmp_path):
    """Return a function that makes an installation, and returns its hook for a spec."""

    def make(name, interpreter="python3", command="check", more=()):
        root, programs = tmp_path / name / "lib", tmp_path / name / "bin"
        (root / "amd_gpu_tracker").mkdir(parents=True, exist_ok=True)
        (root / "amd_gpu_tracker/hook.py").write_text("")
        programs.mkdir(exist_ok=True)
        for program in ("python3", "amd-ctk"):
            (programs / program).touch()
        if not (programs / "python").exists():
            (programs / "python").symlink_to("python3")
        words = [f"{programs}/{interpreter}", "-I", f"{root}/amd_gpu_tracker/hook.py", command]
        return {"hookName": "createRuntime", "args": [*words, "--import-from", str(root), *more]}

    return make


def spec_with(*hooks):
    return {"containerEdits": {"hooks": list(hooks)}}


def test_a_hook_of_another_installation_counts_and_is_named(installed, tmp_path):
    own, other = installed("own"), installed("other")

    assert accept_hooks([own], spec_with(other)) == [other]
    assert find_other_maker([own], spec_with(other)) == f"{tmp_path}/other/bin/amd-ctk"


def test_two_names_of_one_interpreter_are_one_installation(installed):
    assert find_other_maker([installed("own")], spec_with(installed("own", "python"))) == ""


@pytest.mark.parametrize(
    "changes", [{"command": "claim"}, {"more": ["--image-requirements", "warn"]}], ids=["command", "options"]
)
def test_a_hook_that_does_something_else_does_not_count(installed, changes):
    own = installed("own")

    assert accept_hooks([own], spec_with(installed("other", **changes))) == [own]


def test_a_hook_of_an_installation_that_is_gone_does_not_count(installed, tmp_path):
    own, other = installed("own"), installed("other")
    (tmp_path / "other/lib/amd_gpu_tracker/hook.py").unlink()

    assert accept_hooks([own], spec_with(other)) == [own]
    assert find_other_maker([own], spec_with(other)) == ""


@pytest.mark.parametrize("gone", ["bin/python3", "lib"])
def test_a_hook_that_cannot_run_any_more_does_not_count(installed, tmp_path, gone):
    """A distribution's upgrade takes the interpreter of a virtual environment away, and leaves the rest."""
    own, other = installed("own"), installed("other")
    if gone == "lib":
        other["args"][-1] = str(tmp_path / "other/lib-of-python3.11")
    else:
        (tmp_path / "other" / gone).unlink()

    assert accept_hooks([own], spec_with(other)) == [own]
    assert find_other_maker([own], spec_with(other)) == ""


@pytest.mark.parametrize("hook", [None, 7, {}, {"args": [7]}, {"args": "x", "hookName": "createRuntime"}])
def test_a_hook_that_is_not_the_toolkits_is_left_out(installed, hook):
    own = installed("own")

    assert accept_hooks([own], spec_with(hook)) == [own]
