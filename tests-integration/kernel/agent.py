"""What runs the tests' commands in a virtual machine, a line of JSON each way over a virtio port."""

from __future__ import annotations

PORT = "agent"
# Runs in the machine, with its python and without this project.
AGENT = f"""import json, subprocess, time
while True:
    try:
        port = open("/dev/virtio-ports/{PORT}", "r+b", buffering=0)
        break
    except OSError:
        time.sleep(0.2)
for line in port:
    ended = subprocess.run(
        ["sh", "-c", json.loads(line)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    port.write(json.dumps([ended.returncode, ended.stdout.decode("utf-8", "replace")]).encode() + b"\\n")
"""
UNIT = """[Unit]
StartLimitIntervalSec=0
Description=Run commands of the tests
After=systemd-udev-trigger.service

[Service]
ExecStart=/usr/bin/python3 /usr/local/sbin/agent
# It reads the end of its file where nobody is connected.
Restart=always
RestartSec=1
Environment=HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
Environment=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
WorkingDirectory=/root
# A command of a test may leave processes behind, and containers have cgroups of their own.
KillMode=process
Delegate=yes
"""
