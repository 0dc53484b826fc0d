#!/usr/bin/env bash
# Expected: a program that lists the GPUs of /sys/class/kfd/kfd/topology/nodes has them in KFD's order, which is HIP's.
# Found: two programs sort the names of the directories as text, so node 10 comes before node 2. RamaLama then takes the
# GPU with the most memory, and sets HIP_VISIBLE_DEVICES to its place in this wrong list: HIP uses the small GPU.
# rocm-bootstrap lists the targets in another order than that of the devices. It takes ten nodes: two processors and
# eight GPUs, or four sockets with six.
# ramalama 0.25.0 and rocm-bootstrap 0.3.0 from PyPI, 2026-11-28.
. "$(dirname "$(realpath "$0")")/common.sh"
install_from_pypi ramalama==0.25.0 rocm-bootstrap==0.3.0
add_node() {
    mkdir -p "nodes/$1/mem_banks/0"
    printf 'simd_count 304\ngfx_target_version 90402\nmem_banks_count 1\n' >"nodes/$1/properties"
    printf 'heap_type 1\nsize_in_bytes %s\n' "$2" >"nodes/$1/mem_banks/0/properties"
    echo "$1" >"nodes/$1/gpu_id"
}
add_node 2 17163091968
add_node 10 206141652992
seen=$(venv/bin/python - <<'END'
import os
from glob import glob
from pathlib import Path

import ramalama.amdkfd
from ramalama.common import check_rocm_amd
from rocm_bootstrap import _platform
from rocm_bootstrap.detect import detect_gpus

KFD = "/sys/devices/virtual/kfd/kfd/topology/nodes"
ramalama.amdkfd.glob.glob = lambda pattern: glob(pattern.replace(KFD, "nodes"))
check_rocm_amd()
print("RamaLama takes HIP device", os.environ["HIP_VISIBLE_DEVICES"], "for the GPU of node 10")
_platform.KFD_TOPOLOGY = Path("nodes")
print("rocm-bootstrap lists nodes", *(gpu.node_id for gpu in detect_gpus()))
END
)
judge "$seen" "RamaLama takes HIP device 0 for the GPU of node 10
rocm-bootstrap lists nodes 10 2"
