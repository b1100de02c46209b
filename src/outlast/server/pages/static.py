"""What pages load: a few files, read once; no others of the folder can be asked for."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

FOLDER = Path(__file__).parent.parent / "static"
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


async def static(request: Request) -> Response:
    """A file, or 304 where the browser has it."""
    found = _files().get(request.path_params["name"])
    if found is None:
        return PlainTextResponse("there is no such file\n", 404)
    content, kind, tag = found
    headers = {
        "etag": tag,
        "cache-control": "no-cache",
        "x-content-type-options": "nosniff",
        "content-security-policy": "default-src 'none'",
    }
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=kind)


@cache
def _files() -> dict[str, tuple[bytes, str, str]]:
    """name -> (content, media type, tag)."""
    found = {}
    for path in FOLDER.iterdir():
        if path.suffix in KINDS:
            content = path.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
            found[path.name] = content, KINDS[path.suffix], tag
    return found
