#!/usr/bin/env bash
# Expected: with a kernel that has KFD (CONFIG_HSA_AMD=y), GPUs reach each other's memory over PCIe, and share the
# process's memory by page faults (HMM), as ROCm's guides for MI200, MI300 and Radeon have it.
# Found: in Debian 12 both parts are off, because PCI_P2PDMA and DEVICE_PRIVATE are. GPUs without XGMI copy through the
# host's memory. So it is in Debian 13 (6.12.117); Linux 7.2.13 of sid has HSA_AMD_SVM, and still no HSA_AMD_P2P. The
# module then lacks the parameter pcie_p2p.
# linux-headers-6.1.0-50-amd64 6.1.176-1 of Debian 12, 2026-11-28.
. "$(dirname "$(realpath "$0")")/common.sh"
install_from_debian linux-headers-6.1.0-50-amd64=6.1.176-1
judge "$(cd debian/usr/src/linux-headers-*-amd64 && for option in HSA_AMD PCI_P2PDMA HSA_AMD_P2P DEVICE_PRIVATE HSA_AMD_SVM; do
    grep -q "^CONFIG_$option=" .config && echo "$option: yes" || echo "$option: no"
done)" "HSA_AMD: yes
PCI_P2PDMA: no
HSA_AMD_P2P: no
DEVICE_PRIVATE: no
HSA_AMD_SVM: no"
