#!/usr/bin/env bash
# Expected: the drm collector of prometheus-node-exporter reports AMD's GPUs and leaves out other cards, or gives each
# its vendor.
# Found: every card is reported as vendor="amd", with 0 for each file that it lacks. The display controller of a server
# (ASPEED) is a GPU with 0 bytes of memory, and an alert for "used / size" divides by zero.
# prometheus-node-exporter 1.5.0-1+b6 of Debian 12, 2026-11-28.
. "$(dirname "$(realpath "$0")")/common.sh"
install_from_debian prometheus-node-exporter=1.5.0-1+b6
for card in card0 card1; do mkdir -p "sys/class/drm/$card/device"; done
printf 'DRIVER=ast\nPCI_SLOT_NAME=0000:22:00.0\n' >sys/class/drm/card0/device/uevent
printf 'DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n' >sys/class/drm/card1/device/uevent
echo 68702699520 >sys/class/drm/card1/device/mem_info_vram_total
port=$(python3 -c 'import socket; made = socket.create_server(("127.0.0.1", 0)); print(made.getsockname()[1])')
debian/usr/bin/prometheus-node-exporter --collector.disable-defaults --collector.drm --path.sysfs="$PWD/sys" \
    --web.listen-address="127.0.0.1:$port" 2>log &
exporter=$!
for _ in $(seq 100); do
    python3 -c "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:$port/metrics').read().decode())" \
        >metrics 2>errors && break
    sleep 0.1
done
kill "$exporter"
seen=$(grep -E '^node_drm_(card_info|memory_vram_size_bytes)' metrics | sed -E 's/memory_vendor="",.*unique_id="",//')
judge "$seen" 'node_drm_card_info{card="card0",vendor="amd"} 1
node_drm_card_info{card="card1",vendor="amd"} 1
node_drm_memory_vram_size_bytes{card="card0"} 0
node_drm_memory_vram_size_bytes{card="card1"} 6.870269952e+10'
