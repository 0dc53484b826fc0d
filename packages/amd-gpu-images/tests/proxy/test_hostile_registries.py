"""A registry may be slow, endless, broken or lying: an engine gets no wrong image, and the proxy is not kept busy."""

from __future__ import annotations

import json
import socket
import time
from http.client import IncompleteRead

import pytest

from amd_gpu_images.proxy import proxy as proxy_module
from amd_gpu_images.proxy import registry_connection
from amd_gpu_images.proxy import serve as serve_module

INDEX = "application/vnd.oci.image.index.v1+json"
TAG = "/v2/app/manifests/1"
OF_INDEX = f"HTTP/1.1 200 OK\r\nContent-Type: {INDEX}\r\n".encode()
TOO_LARGE = "no image for this host: the index is compressed, or larger than 512 KiB"


def send_without_end(connection, piece):
    while True:
        connection.sendall(piece)


def test_an_index_of_a_hundred_megabytes_is_not_read(registry, proxy):
    registry.answers[TAG] = lambda connection: connection.sendall(
        OF_INDEX + b"Content-Length: 104857600\r\n\r\n" + bytes(2**20)
    )

    assert proxy.message(TAG) == (404, TOO_LARGE)


@pytest.mark.parametrize(
    ("header", "piece"), [(b"Transfer-Encoding: chunked\r\n", b"1000\r\n" + bytes(4096) + b"\r\n"), (b"", bytes(4096))]
)
def test_an_index_without_an_end_is_not_read(registry, proxy, header, piece):
    def answer(connection):
        connection.sendall(OF_INDEX + header + b"\r\n")
        send_without_end(connection, piece)

    registry.answers[TAG] = answer

    assert proxy.message(TAG) == (404, TOO_LARGE)


@pytest.mark.parametrize("beginning", [b"", OF_INDEX + b"Content-Length: 100000\r\n\r\n", OF_INDEX + b"\r\n"])
def test_a_registry_that_sends_a_byte_from_time_to_time_is_given_up(registry, proxy, beginning, monkeypatch):
    monkeypatch.setattr(registry_connection, "RESPONSE_TIMEOUT", 0.5)

    def answer(connection):
        connection.sendall(beginning)
        while True:
            connection.sendall(b"1")
            time.sleep(0.05)

    registry.answers[TAG] = answer

    assert proxy.message(TAG) == (502, f"{registry.address} gives no answer within 0.5 seconds")


def test_an_index_of_too_many_images_is_refused(registry, proxy):
    image = registry.put("/v2/app/manifests/image", {"layers": []})
    registry.put_index(TAG, *[{**image, "annotations": {"com.amd.gpu.targets": "gfx90a"}}] * 257)

    assert proxy.message(TAG) == (404, "no image for this host: the index has more than 256 images")


@pytest.mark.parametrize("content", [b"{", b"[" * 500_000, b"[]", b"\xff", b""])
def test_an_index_that_is_none_is_refused(registry, proxy, content):
    registry.put_content(TAG, content, f"Content-Type: {INDEX}")

    status, message = proxy.message(TAG)

    assert status == 404
    assert message in (
        "no image for this host: the index is not JSON",
        "no image for this host: the index is not a JSON object",
    )


def test_an_index_that_is_compressed_all_the_same_is_refused(registry, proxy):
    registry.put_content(TAG, b"x", f"Content-Type: {INDEX}", "Content-Encoding: gzip")

    assert proxy.message(TAG) == (404, TOO_LARGE)


def test_a_reason_has_no_control_characters_and_one_line(registry, proxy):
    image = registry.put("/v2/app/manifests/image", {"layers": []})
    told = {"com.amd.gpu.require.gfx": "gfx=\x1b[2J\r\nHTTP/1.1 200 OK\n\n" + "x" * 2000}
    registry.put_index(TAG, {**image, "annotations": told})

    status, message = proxy.message(TAG)

    assert status == 404
    assert message.isprintable()
    assert len(message) < 600


def test_another_image_than_the_index_names_is_not_passed_on(registry, proxy):
    digest = registry.put_images("gfx90a")["gfx90a"]
    registry.answers[f"/v2/app/manifests/{digest}"] = registry.answers["/v2/app/manifests/gfx90a"].replace(b"of", b"no")

    assert proxy.message(TAG) == (502, f"the registry sent something other than the image {digest}")


def test_an_image_that_is_an_index_when_it_comes_is_not_passed_on(registry, proxy):
    image = registry.put("/v2/app/manifests/image", {"manifests": []}, INDEX)
    told = {"mediaType": "application/vnd.oci.image.manifest.v1+json", "annotations": {"com.amd.gpu.targets": "gfx90a"}}
    registry.put_index(TAG, {**image, **told})

    assert proxy.message(TAG) == (502, f"the registry sent something other than the image {image['digest']}")


def test_a_tag_is_not_looked_for_on_another_server(registry, proxy):
    for location in ("https://other.example/v2/app/manifests/1", "//other.example/v2/x", "/elsewhere"):
        registry.put_content(TAG, b"", f"Location: {location}", status="307 Temporary Redirect")

        assert proxy.message(TAG) == (502, f"{registry.address} has its manifests on another server")


@pytest.mark.parametrize("head", [b"Content-Length: 100\r\n\r\n12", b"Transfer-Encoding: chunked\r\n\r\n2\r\n12\r\n"])
def test_an_engine_notices_a_layer_that_breaks_off(registry, proxy, head):
    registry.answers["/v2/app/blobs/x"] = lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\n" + head)

    with pytest.raises(IncompleteRead):
        proxy("/v2/app/blobs/x")


def test_a_header_stays_one_header(registry, proxy):
    registry.put_content("/v2/", b"{}", "X-A: 1\r\n 2", "X-B: 1\rX-C: 2", "Connection: keep-alive")

    answer = proxy.raw("GET /v2/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")

    head = answer.partition(b"\r\n\r\n")[0]
    assert b"X-A: 1  2" in head.split(b"\r\n")
    assert b"\r" not in head.replace(b"\r\n", b"")
    assert answer.endswith(b"\r\n\r\n{}")


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 " + b"x" * 70_000,
    ],
)
def test_an_answer_that_is_no_http_breaks_off(registry, proxy, answer):
    registry.answers[TAG] = lambda connection: connection.sendall(answer)

    assert proxy.message(TAG) == (502, f"{registry.address} breaks off its answer")


def test_a_registry_that_is_not_there_is_named(registry, proxy):
    registry.close()

    assert proxy.message(TAG) == (502, f"{registry.address} cannot be reached: Connection refused")


def test_a_connection_that_the_registry_ended_is_opened_again(registry, proxy):
    digests = registry.put_images("gfx90a")
    content = registry.answers[TAG]
    registry.answers[TAG] = lambda connection: connection.sendall(content)

    status, headers, _ = proxy(TAG)

    assert (status, headers["Docker-Content-Digest"]) == (200, digests["gfx90a"])


def test_engines_that_ask_nothing_keep_no_other_from_asking(registry, proxy, monkeypatch):
    monkeypatch.setattr(proxy_module.EngineConnection, "timeout", 0.2)
    # As for root, whoever runs this test.
    monkeypatch.setattr(serve_module, "MOST_OF_A_USER", 64)
    registry.put_images("gfx90a")
    idle = [socket.create_connection(("127.0.0.1", proxy.port)) for _ in range(40)]

    status, _, content = proxy(TAG)

    assert (status, json.loads(content)) == (200, {"of": "gfx90a"})
    for each in idle:
        each.close()
