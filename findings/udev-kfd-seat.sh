#!/usr/bin/env bash
# Expected: who sits at the machine may use its GPUs without a group: logind gives the person an ACL on their nodes.
# Found: only on the render nodes. /dev/kfd has no such rule, so Vulkan, VA-API and Mesa's OpenCL work, and ROCm fails with
# "permission denied" until the person is in the group render. So it is in Debian 13 (systemd 257.13); systemd 262.1 of
# sid gives both. A program that tests access with a render node alone is wrong on the older ones.
# systemd 252.39-1~deb12u2 of Debian 12, 2026-11-28.
. "$(dirname "$(realpath "$0")")/common.sh"
install_from_debian systemd=252.39-1~deb12u2
given=$(grep -h 'TAG+="uaccess"' debian/lib/udev/rules.d/*.rules)
judge "$(for node in 'renderD\*' kfd; do
    echo "${node/\\/}: $(grep -c "KERNEL==\"$node\"" <<<"$given")"
done)" "renderD*: 1
kfd: 0"
