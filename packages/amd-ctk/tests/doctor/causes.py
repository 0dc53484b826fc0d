"""Each cause of docs/reference/no-gpu-causes.md: its check, which says bad, and the test that shows it."""

from __future__ import annotations

CAUSES = {
    1: ("inside-access", "test_inside_causes.py", "test_only_its_check_calls_a_fault_bad[inside-access]"),
    2: ("inside-targets", "test_inside_causes.py", "test_only_its_check_calls_a_fault_bad[inside-targets]"),
    3: ("windows", "test_causes.py", "test_only_its_check_calls_a_fault_bad[windows]"),
    4: (
        "inside-integrated",
        "test_inside_causes.py",
        "test_only_its_check_calls_an_integrated_gpu_without_code_bad",
    ),
    5: ("inside-override", "test_inside_causes.py", "test_only_its_check_calls_a_fault_bad[inside-override]"),
    6: ("cdi", "test_causes.py", "test_only_its_check_calls_a_fault_bad[cdi]"),
    7: ("inside-filters", "test_inside_causes.py", "test_only_its_check_calls_a_fault_bad[inside-filters]"),
    8: ("docker-gpus", "test_inside_causes.py", "test_doctor_gives_the_reason_why_a_container_cannot_use_its_gpus"),
    9: ("driver", "test_causes.py", "test_only_its_check_calls_a_fault_bad[driver]"),
    10: ("kfd", "test_causes.py", "test_only_its_check_calls_a_fault_bad[kfd]"),
    11: ("user-namespace", "test_causes.py", "test_only_its_check_calls_a_fault_bad[user-namespace]"),
    13: ("partitions", "test_causes.py", "test_partitions_without_nodes_are_distinguished"),
    14: ("selinux", "test_causes.py", "test_only_its_check_calls_a_fault_bad[selinux]"),
    15: ("containers", "test_stale_containers.py", "test_a_container_with_other_numbers_is_named"),
    16: ("inside-slurm", "test_inside_causes.py", "test_a_container_in_a_job_is_compared_with_its_job"),
    17: ("inside-cache", "test_inside_causes.py", "test_only_its_check_calls_a_fault_bad[inside-cache]"),
    18: ("inside-lsmod", "test_inside_causes.py", "test_only_its_check_calls_a_fault_bad[inside-lsmod]"),
    20: ("podman-nodes", "test_causes.py", "test_only_its_check_calls_a_fault_bad[podman-nodes]"),
    21: ("apu-memory", "test_causes.py", "test_only_its_check_calls_an_apu_without_memory_bad"),
    23: (
        "inside-shm",
        "test_inside_causes.py",
        "test_only_its_check_calls_too_little_shared_memory_for_rccl_bad",
    ),
    25: ("docker-context", "test_causes.py", "test_only_its_check_calls_a_fault_bad[docker-context]"),
    26: ("kfd", "test_causes.py", "test_only_its_check_calls_a_fault_bad[kfd]"),
    27: ("inside-kfd", "test_inside_causes.py", "test_only_its_check_calls_a_fault_bad[inside-kfd]"),
    28: ("secure-boot", "test_causes.py", "test_only_its_check_calls_a_fault_bad[secure-boot]"),
    29: ("packages", "test_causes.py", "test_only_its_check_calls_a_fault_bad[packages]"),
    30: ("docker", "test_causes.py", "test_only_its_check_calls_a_fault_bad[docker]"),
    31: ("sudo", "test_sudo.py", "test_only_its_check_calls_that_bad"),
    32: ("gpu-state", "test_causes.py", "test_only_its_check_calls_a_fault_bad[gpu-state]"),
    33: ("inside-memlock", "test_inside_causes.py", "test_only_its_check_calls_a_fault_bad[inside-memlock]"),
    34: ("kfd", "test_half_gpus.py", "test_a_gpu_that_is_half_there_has_its_own_cause"),
    35: ("kfd", "test_half_gpus.py", "test_a_gpu_that_is_half_there_has_its_own_cause"),
    36: ("driver", "test_half_gpus.py", "test_a_kernel_that_was_told_not_to_load_the_driver_says_so"),
    37: ("driver", "test_half_gpus.py", "test_a_gpu_of_another_driver_is_named_with_it"),
    38: ("inside-nodes", "test_inside_causes.py", "test_a_render_node_under_another_number_is_not_found_by_rocm"),
    39: ("docker", "test_docker_engines.py", "test_the_file_that_the_unit_names_is_judged_and_not_the_default_one"),
    40: ("docker-cdi", "test_cdi_specs.py", "test_a_spec_that_docker_does_not_read_is_bad"),
    41: ("podman-nodes", "test_causes.py", "test_a_lack_of_rootless_podman_is_named"),
}
# What no host shows, and why; the check that notes it where there is something to see.
WITHOUT_CHECK = {
    12: ("inside-smi", "test_tools_that_show_the_whole_host_are_explained"),
    19: ("", ""),
    22: ("inside-rocm", "test_only_its_check_notes_what_is_no_fault[inside-rocm]"),
    24: ("inside-numa", "test_only_its_check_notes_what_is_no_fault[inside-numa]"),
}
