"""Each cause of docs/reference/no-gpu-causes.md: its check, what the check says, and the test that shows it."""

from __future__ import annotations

CAUSES = {
    1: ("inside-access", "bad", "test_inside_causes.py", "test_only_its_check_calls_a_fault_bad[inside-access]"),
    2: ("inside-targets", "bad", "test_inside_causes.py", "test_only_its_check_calls_a_fault_bad[inside-targets]"),
    3: ("windows", "bad", "test_causes.py", "test_only_its_check_calls_a_fault_bad[windows]"),
    4: ("integrated-gpu", "note", "test_causes.py", "test_what_is_no_fault_is_a_note"),
    5: (
        "inside-targets",
        "note",
        "test_inside_causes.py",
        "test_only_its_check_notes_what_is_no_fault[inside-targets]",
    ),
    6: ("cdi", "bad", "test_causes.py", "test_only_its_check_calls_a_fault_bad[cdi]"),
    7: ("inside-filters", "bad", "test_inside_causes.py", "test_only_its_check_calls_a_fault_bad[inside-filters]"),
    8: ("docker-gpus", "note", "test_causes.py", "test_what_an_engine_can_do_follows_from_its_version"),
    9: ("driver", "bad", "test_causes.py", "test_only_its_check_calls_a_fault_bad[driver]"),
    10: ("kfd", "bad", "test_causes.py", "test_only_its_check_calls_a_fault_bad[kfd]"),
    11: ("user-namespace", "bad", "test_causes.py", "test_only_its_check_calls_a_fault_bad[user-namespace]"),
    12: ("inside-smi", "note", "test_inside_causes.py", "test_tools_that_show_the_whole_host_are_explained"),
    13: ("partitions", "bad", "test_causes.py", "test_partitions_without_nodes_are_told_apart"),
    14: ("selinux", "bad", "test_causes.py", "test_only_its_check_calls_a_fault_bad[selinux]"),
    15: ("containers", "bad", "test_stale_containers.py", "test_a_container_with_other_numbers_is_named"),
    16: ("inside-slurm", "bad", "test_inside_causes.py", "test_a_container_in_a_job_is_compared_with_its_job"),
    17: ("inside-cache", "note", "test_inside_causes.py", "test_only_its_check_notes_what_is_no_fault[inside-cache]"),
    18: ("inside-lsmod", "note", "test_inside_causes.py", "test_only_its_check_notes_what_is_no_fault[inside-lsmod]"),
    20: ("podman-nodes", "bad", "test_causes.py", "test_only_its_check_calls_a_fault_bad[podman-nodes]"),
    21: ("apu-memory", "note", "test_causes.py", "test_what_is_no_fault_is_a_note"),
    22: ("inside-rocm", "note", "test_inside_causes.py", "test_only_its_check_notes_what_is_no_fault[inside-rocm]"),
    23: ("inside-shm", "note", "test_inside_causes.py", "test_several_gpus_want_shared_memory"),
    24: ("inside-numa", "note", "test_inside_causes.py", "test_only_its_check_notes_what_is_no_fault[inside-numa]"),
    25: ("docker-context", "bad", "test_causes.py", "test_only_its_check_calls_a_fault_bad[docker-context]"),
    26: ("kfd", "bad", "test_causes.py", "test_only_its_check_calls_a_fault_bad[kfd]"),
    27: ("inside-kfd", "bad", "test_inside_causes.py", "test_only_its_check_calls_a_fault_bad[inside-kfd]"),
    28: ("secure-boot", "bad", "test_causes.py", "test_only_its_check_calls_a_fault_bad[secure-boot]"),
    29: ("packages", "bad", "test_causes.py", "test_only_its_check_calls_a_fault_bad[packages]"),
    30: ("docker", "bad", "test_causes.py", "test_only_its_check_calls_a_fault_bad[docker]"),
    31: ("sudo", "note", "test_sudo.py", "test_a_program_of_a_virtual_environment_is_called_by_its_path"),
    32: ("gpu-state", "bad", "test_causes.py", "test_only_its_check_calls_a_fault_bad[gpu-state]"),
    33: ("inside-memlock", "bad", "test_inside_causes.py", "test_only_its_check_calls_a_fault_bad[inside-memlock]"),
}
# What no host shows.
WITHOUT_CHECK = {19: "a Compose file is explained by amd-ctk explain"}
