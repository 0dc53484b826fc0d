"""A separate registry: Debian's docker-registry on a loopback port, with TLS and a password on request."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
import ssl
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

from support.installed import engine_program

USER, PASSWORD = "user", "secret"
# The hash of "secret" by `htpasswd -B`; the registry reads no other kind.
HTPASSWD = "user:$2y$05$0RAhnvSPCGzZBvaN5allTOQAKMJv30NmcW1XSJm/3otBnRbFqAv66\n"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
TIMEOUT = 60.0


class Registry:
    """A running registry; `address` is its host and port. `stop` ends it."""

    def __init__(self, directory: Path, *, has_login: bool = False, has_tls: bool = False) -> None:
        program = engine_program("docker-registry")
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.address = f"localhost:{free_port()}"
        self.url = f"{'https' if has_tls else 'http'}://{self.address}"
        self.certificate = directory / "certificate.pem"
        self._headers = {"Authorization": f"Basic {credentials()}"} if has_login else {}
        if has_tls:
            make_certificate(self.certificate, directory / "key.pem")
        self.tls = ssl.create_default_context(cafile=os.fspath(self.certificate)) if has_tls else None
        (directory / "htpasswd").write_text(HTPASSWD)
        settings = _settings(directory, self.address, has_login=has_login, has_tls=has_tls)
        (directory / "config.yml").write_text(json.dumps(settings))
        self._log = (directory / "log").open("wb")
        self.process = subprocess.Popen(
            [program, "serve", directory / "config.yml"], stdout=self._log, stderr=self._log, start_new_session=True
        )
        wait_for_port(self.address, self.process)

    def stop(self) -> None:
        """End the registry; its contents stay in its directory."""
        self.process.terminate()
        self.process.wait()
        self._log.close()

    def push(
        self,
        name: str,
        layer: bytes = b"",
        *,
        config: dict[str, Any] | None = None,
        annotations: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """Store an image with one layer, an archive, as REPOSITORY:TAG; return its descriptor."""
        repository = name.partition(":")[0]
        layers = [{"mediaType": LAYER, **self.push_blob(repository, layer)}] if layer else []
        diff_ids = [entry["digest"] for entry in layers]
        configuration = {
            "architecture": "amd64",
            "os": "linux",
            "config": config or {},
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        }
        described = {"mediaType": CONFIG, **self.push_blob(repository, json.dumps(configuration).encode())}
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described, "layers": layers}
        return self.push_document(name, {**manifest, "annotations": annotations} if annotations else manifest)

    def push_index(self, name: str, *entries: dict[str, Any]) -> dict[str, Any]:
        """Store an index of images in the repository."""
        return self.push_document(name, {"schemaVersion": 2, "mediaType": INDEX, "manifests": list(entries)})

    def push_document(self, name: str, document: dict[str, Any]) -> dict[str, Any]:
        """Store a manifest or an index as REPOSITORY:TAG; return its descriptor."""
        repository, _, tag = name.partition(":")
        content = json.dumps(document).encode()
        self.request("PUT", f"{self.url}/v2/{repository}/manifests/{tag}", content, document["mediaType"])
        return {"mediaType": document["mediaType"], "digest": digest_of(content), "size": len(content)}

    def push_blob(self, repository: str, content: bytes) -> dict[str, Any]:
        """Store a blob; return its digest and its size."""
        place = self.request("POST", f"{self.url}/v2/{repository}/blobs/uploads/")["Location"]
        sign = "&" if "?" in place else "?"
        self.request("PUT", f"{place}{sign}digest={digest_of(content)}", content, "application/octet-stream")
        return {"digest": digest_of(content), "size": len(content)}

    def request(self, method: str, url: str, content: bytes = b"", media_type: str = "") -> Any:
        """Send a request and return the headers of the answer."""
        headers = {**self._headers, "Content-Type": media_type or "application/octet-stream"}
        request = urllib.request.Request(url, content, headers, method=method)
        with urllib.request.urlopen(request, timeout=TIMEOUT, context=self.tls) as answer:
            return answer.headers


def digest_of(content: bytes) -> str:
    """Return the digest by which registries identify a blob."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def credentials() -> str:
    """Return the credentials that a client stores after a login."""
    return base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


def log_in(home: Path, address: str) -> None:
    """Write the file that `docker login` and `skopeo login` write."""
    (home / ".docker").mkdir(parents=True, exist_ok=True)
    (home / ".docker/config.json").write_text(json.dumps({"auths": {address: {"auth": credentials()}}}))


def free_port() -> int:
    """Return a free loopback port."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def wait_for_port(address: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until a server accepts connections."""
    host, _, port = address.rpartition(":")
    until = time.monotonic() + TIMEOUT
    while True:
        try:
            socket.create_connection((host, int(port))).close()
        except OSError:
            assert process.poll() is None, f"the server at {address} has ended"
            assert time.monotonic() < until, f"nothing listens at {address}"
            time.sleep(0.02)
        else:
            return


def make_certificate(certificate: Path, key: Path) -> None:
    """Make a self-signed certificate for localhost."""
    words = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30")
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    program = engine_program("openssl")
    subprocess.run([program, *words, *names, "-keyout", key, "-out", certificate], capture_output=True, check=True)


def _settings(directory: Path, address: str, *, has_login: bool, has_tls: bool) -> dict[str, Any]:
    """Return the settings of a registry; JSON is YAML too."""
    http: dict[str, Any] = {"addr": address}
    if has_tls:
        http["tls"] = {"certificate": f"{directory}/certificate.pem", "key": f"{directory}/key.pem"}
    login = {"auth": {"htpasswd": {"realm": "registry", "path": f"{directory}/htpasswd"}}}
    storage = {"filesystem": {"rootdirectory": f"{directory}/stored"}}
    return {"version": 0.1, "log": {"level": "error"}, "storage": storage, "http": http, **(login if has_login else {})}
