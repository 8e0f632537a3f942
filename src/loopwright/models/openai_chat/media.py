"""Images, files and sound on the Chat Completions wire, both ways."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from typing import Any

from ...errors import InvalidContentError
from ...messages import FilePart, ImagePart, TextPart
from ..json_shapes import is_object

__all__ = ["audio_merged", "image_of", "user_part"]

_SOUND_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav", "vnd.wave": "wav", "mp4": "m4a", "x-m4a": "m4a"}


def user_part(part: TextPart | ImagePart | FilePart) -> dict[str, Any]:
    """A part as a member of a `content` list.

    Raises:
        InvalidContentError: The part has neither bytes nor URL, or bytes without a media type, or a sound as a URL.
    """
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    kind = part.media_type or ""
    if isinstance(part, ImagePart) or kind.startswith("image/"):
        image: dict[str, Any] = {"url": _url(part)}
        if part.provider_data and isinstance(detail := part.provider_data.get("detail"), str):
            image["detail"] = detail
        return {"type": "image_url", "image_url": image}
    if kind.startswith("audio/"):
        return {"type": "input_audio", "input_audio": _sound(part)}
    name = part.filename or f"file.{kind.partition('/')[2] or 'bin'}"
    return {"type": "file", "file": {"filename": name, "file_data": _url(part)}}


def image_of(item: Mapping[str, Any]) -> ImagePart | None:
    """The image of an answer's `image_url` part, None where there is none."""
    value = item.get("image_url")
    url = value.get("url") if is_object(value) else value
    if not isinstance(url, str) or not url:
        return None
    head, comma, payload = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return ImagePart(url=url)
    try:
        return ImagePart(b64decode(payload, validate=True), head[5:-7].partition(";")[0] or "image/png")
    except (Base64Error, ValueError):
        return ImagePart(url=url)


def audio_merged(audio: dict[str, Any], delta: Any) -> None:
    """Add a delta of spoken answer: sound and transcript grow, the rest is set."""
    if not is_object(delta):
        return
    for name, value in delta.items():
        if not value:
            continue
        if name in ("data", "transcript") and isinstance(value, str):
            audio[name] = audio.get(name, "") + value
        else:
            audio[name] = value


def _url(part: ImagePart | FilePart) -> str:
    if part.url:
        return part.url
    return f"data:{_media_type(part)};base64,{_base64(part)}"


def _sound(part: FilePart) -> dict[str, str]:
    if part.data is None:
        raise InvalidContentError(
            "This wire takes sound only as bytes, not as a URL. Download it and pass its data and media_type."
        )
    subtype = _media_type(part).partition("/")[2].partition(";")[0]
    return {"data": _base64(part), "format": _SOUND_FORMATS.get(subtype, subtype)}


def _media_type(part: ImagePart | FilePart) -> str:
    if not part.media_type:
        raise InvalidContentError(
            f"{type(part).__name__} has bytes but no media_type. Say what they are, like 'image/png' or "
            "'application/pdf'."
        )
    return part.media_type


def _base64(part: ImagePart | FilePart) -> str:
    if part.data is None:
        raise InvalidContentError(f"{type(part).__name__} has neither data nor url. Give exactly one of the two.")
    return b64encode(part.data).decode("ascii")
