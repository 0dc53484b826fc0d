"""amd-ctk top and status; the screen itself is tested where it is made."""

from __future__ import annotations


def test_off_a_terminal_both_print_every_gpu_once(host, amd_ctk):
    host("mi210-4")

    answers = [amd_ctk("top"), amd_ctk("status")]

    assert answers[0].stdout == (
        "--------------------------------------------------------------------------\n"
        "GPU  Model  State  VRAM         Memory  Busy  Temp  Watt  Who  What  Since\n"
        "--------------------------------------------------------------------------\n"
        "0    MI210  free      -  - of 64.0 GiB     -     -     -  -    -     -\n"
        "1    MI210  free      -  - of 64.0 GiB     -     -     -  -    -     -\n"
        "2    MI210  free      -  - of 64.0 GiB     -     -     -  -    -     -\n"
        "3    MI210  free      -  - of 64.0 GiB     -     -     -  -    -     -\n"
        "GPU Tracker is disabled, so reservations are not known\n"
    )
    assert answers[1].stdout == answers[0].stdout


def test_gpus_of_a_simulated_host_are_idle(amd_ctk):
    answer = amd_ctk("--simulate", "mi210-4", "status", AMD_CTK_HOST_ROOT="")

    assert answer.stdout == (
        "----------------------------------------------------------------------------\n"
        "GPU  Model  State  VRAM           Memory  Busy  Temp  Watt  Who  What  Since\n"
        "----------------------------------------------------------------------------\n"
        "0    MI210  free    0 %  0.0 of 64.0 GiB   0 %  38 C  41 W  -    -     -\n"
        "1    MI210  free    0 %  0.0 of 64.0 GiB   0 %  38 C  41 W  -    -     -\n"
        "2    MI210  free    0 %  0.0 of 64.0 GiB   0 %  38 C  41 W  -    -     -\n"
        "3    MI210  free    0 %  0.0 of 64.0 GiB   0 %  38 C  41 W  -    -     -\n"
        "GPU Tracker is disabled, so reservations are not known\n"
    )


def test_a_host_without_a_driver_is_refused(host, amd_ctk):
    host("no-driver")

    answer = amd_ctk("top")

    assert (answer.returncode != 0, answer.stdout) == (True, "")
    assert "amdgpu" in answer.stderr
