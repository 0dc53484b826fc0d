"""What an image sets itself, as the engine that has it says."""

from __future__ import annotations

from amd_ctk.explain.running import ENGINES, ask_engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.explain.container import Container


def add_image(container: Container) -> Container:
    """Return a container with the environment of its image; as it is where no engine knows that."""
    if container.engine not in ENGINES or not container.image or container.image.startswith("-"):
        return container
    words = ("image", "inspect", "--format", "{{json .Config.Env}}", container.image)
    answer = ask_engine(container.engine, *words)
    if not answer.succeeded:
        return container
    return container.replace(image_environment=tuple(_parse(answer.output)), is_image_known=True)


def _parse(text: str) -> list[str]:
    import json

    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [str(entry) for entry in entries] if isinstance(entries, list) else []
