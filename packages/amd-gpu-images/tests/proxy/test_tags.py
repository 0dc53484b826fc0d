"""The tag of an index is answered with the image for the host, and all else as the registry does."""

from __future__ import annotations

import json

import pytest

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
TAG = "/v2/app/manifests/1"


@pytest.mark.parametrize(("profile", "target"), [("mi210-4", "gfx90a"), ("mi300x-8", "gfx942"), ("mi355x-8", "gfx950")])
def test_head_and_get_of_a_tag_give_the_image_of_the_host(registry, start, profile, target):
    digests = registry.put_images("gfx90a", "gfx942", "gfx950")
    proxy = start(profile)

    status, headers, content = proxy(TAG)
    head_status, head_headers, head_content = proxy(TAG, "HEAD")

    assert (status, json.loads(content)) == (200, {"of": target})
    assert (headers["Docker-Content-Digest"], headers["Content-Type"]) == (digests[target], MANIFEST)
    assert (head_status, head_headers.items(), head_content) == (200, headers.items(), b"")


def test_where_no_image_fits_the_registrys_own_form_of_error_says_why(registry, start):
    registry.put_images("gfx90a", "gfx942")

    status, headers, content = start("strix-halo")(TAG)

    assert (status, headers["Content-Type"]) == (404, "application/json")
    assert json.loads(content) == {
        "errors": [
            {
                "code": "MANIFEST_UNKNOWN",
                "message": "no image for this host: AMD_REQUIRE_GFX=gfx=gfx90a: GPU 0 is gfx1151;"
                " AMD_REQUIRE_GFX=gfx=gfx942: GPU 0 is gfx1151",
            }
        ]
    }


def test_a_host_without_a_driver_gets_no_image(registry, start):
    registry.put_images("gfx90a")

    status, message = start("no-driver").message(TAG)

    assert status == 404
    assert message.startswith("no image for this host: amdgpu driver unavailable")


def test_an_index_that_does_not_say_what_its_images_are_for_passes_as_it_is(registry, proxy):
    image = registry.put("/v2/app/manifests/image", {"layers": []})
    index = registry.put_index(TAG, image)

    status, headers, content = proxy(TAG)

    assert (status, headers["Content-Type"]) == (200, INDEX)
    assert json.loads(content)["manifests"] == [image]
    assert headers["Content-Length"] == str(index["size"])


def test_a_digest_passes_as_it_is(registry, proxy):
    registry.put_images("gfx942")
    path = next(path for path, answer in registry.answers.items() if "sha256:" in path and INDEX.encode() in answer)

    assert proxy(path)[1]["Content-Type"] == INDEX


def test_attestations_and_indexes_in_the_index_are_no_images(registry, proxy):
    image = registry.put("/v2/app/manifests/image", {"layers": []})
    told = {"annotations": {"com.amd.gpu.targets": "gfx90a"}}
    attestation = {**image, **told, "platform": {"architecture": "unknown", "os": "unknown"}}
    registry.put_index(TAG, attestation, {**image, **told, "mediaType": INDEX}, {**image, **told, "digest": "sha256:x"})

    assert proxy.message(TAG) == (404, "no image for this host: the index has no image for amd64")


def test_every_line_of_accept_and_the_credentials_reach_the_registry(registry, proxy):
    registry.put_images("gfx90a")

    proxy(TAG, Accept=f"{MANIFEST}, {INDEX}", Authorization="Bearer abc", User_Agent="engine/1", X_Meta="kept")

    for request in registry.requests:
        lines = request.splitlines()
        assert f"Accept: {MANIFEST}, {INDEX}" in lines
        assert {"Authorization: Bearer abc", "User-Agent: engine/1", "X-Meta: kept"} <= set(lines)
        assert f"Host: {registry.address}" in lines


def test_two_lines_of_accept_stay_two(registry, proxy):
    registry.put_images("gfx90a")

    proxy.raw(f"GET {TAG} HTTP/1.1\r\nHost: x\r\nAccept: {MANIFEST}\r\nAccept: {INDEX}\r\nConnection: close\r\n\r\n")

    assert [line for line in registry.requests[0].splitlines() if line.startswith("Accept:")] == [
        f"Accept: {MANIFEST}",
        f"Accept: {INDEX}",
    ]


def test_a_tag_is_never_asked_for_in_parts_or_compressed(registry, proxy):
    registry.put_images("gfx90a")

    status, _, _ = proxy(TAG, Range="bytes=0-1", Accept_Encoding="gzip", If_None_Match='"x"')

    assert status == 200
    assert "Range" not in registry.requests[0]
    assert "If-None-Match" not in registry.requests[0]
    assert "Accept-Encoding" not in registry.requests[0]


def test_the_registrys_refusal_is_the_answer(registry, proxy):
    challenge = 'Bearer realm="https://login.example/token",service="x"'
    refusal = b'{"errors":[{"code":"UNAUTHORIZED"}]}'
    registry.put_content(TAG, refusal, f"WWW-Authenticate: {challenge}", status="401 Unauthorized")

    status, headers, content = proxy(TAG)

    assert (status, headers["WWW-Authenticate"], content) == (401, challenge, refusal)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_push_is_refused_with_a_sentence(registry, proxy, method):
    status, headers, content = proxy("/v2/app/blobs/uploads/", method)

    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert json.loads(content)["errors"][0]["message"] == f"this proxy only pulls images: push to {registry.address}"
    assert registry.requests == []


@pytest.mark.parametrize("target", ["http://other.example/v2/", "//other.example/v2/", "/other", "*", "/v2/\x01"])
def test_a_request_names_no_other_server(registry, proxy, target):
    answer = proxy.raw(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")

    assert answer.split()[1] in (b"404", b"400")
    assert registry.requests == []


def test_a_place_at_the_registry_becomes_one_here(registry, proxy):
    registry.put_content("/v2/a", b"", f"Location: http://{registry.address}/v2/b", status="307 Temporary Redirect")
    registry.put_content("/v2/c", b"", "Location: https://cdn.example/d", status="307 Temporary Redirect")

    assert proxy("/v2/a")[1]["Location"] == "/v2/b"
    assert proxy("/v2/c")[1]["Location"] == "https://cdn.example/d"
