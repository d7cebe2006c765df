"""What servers offer besides calls of tools: resources, prompts and completions.

All of it yields steps. The first argument is whose method it is: of the
runtime, or of one server's proxy.
"""

from __future__ import annotations

import base64
import sys
from typing import Any

from . import terse
from .steps import Steps
from .tools import docs_query
from .wire import dumps

_decode = base64.b64decode


def _listed(method: str, key: str, server: str, cursor: str | None) -> Steps:
    """A list in all its pages, with a word on stderr if it is not all."""
    params = {"server": server} if cursor is None else {"server": server, "cursor": cursor}
    answer = yield method, params
    if answer.get("warning"):
        on = f"; the rest: cursor={answer['nextCursor']!r}" if answer.get("nextCursor") else ""
        print(f"not all of {key} of {server}: {answer['warning']}{on}", file=sys.stderr)
    return answer.get(key) or []


def list_tools(_: Any, server: str, detail: str = "summary") -> Steps:
    """The server's tools: name, first sentence, signature; detail="full" gives them as it declares them."""
    if detail == "full":
        return (yield "tools.list", {"server": server})["tools"]
    return terse.listed((yield "docs.query", docs_query(server, None, detail))["docs"])


def list_resources(_: Any, server: str, cursor: str | None = None) -> Steps:
    """The resources that the server lists, as dicts with uri and name."""
    return _listed("resources.list", "resources", server, cursor)


def list_resource_templates(_: Any, server: str, cursor: str | None = None) -> Steps:
    """Templates of addresses, as dicts with uriTemplate and name: fill in, and read_resource."""
    return _listed("resources.templates", "resourceTemplates", server, cursor)


def read_resource(_: Any, server: str, uri: str, raw: bool = False) -> Steps:
    """A resource: str if it is text, else bytes; a list of them if it has several parts.

    raw=True gives the whole answer, with the parts' addresses and types.
    """
    answer = yield "resources.read", {"server": server, "uri": str(uri)}
    if raw:
        return answer
    parts = [_part(c) for c in answer.get("contents") or []]
    return parts[0] if len(parts) == 1 else parts


def _part(content: Any) -> Any:
    if not isinstance(content, dict):
        return content
    blob = content.get("blob")
    return _decode(blob) if isinstance(blob, str) else content.get("text", "")


def list_prompts(_: Any, server: str, cursor: str | None = None) -> Steps:
    """The server's prompts, as dicts with name, description and arguments."""
    return _listed("prompts.list", "prompts", server, cursor)


def get_prompt(_: Any, server: str, name: str, arguments: dict[str, Any] | None = None, **kwargs: Any) -> Steps:
    """A prompt with its arguments filled in: a dict with messages, each with role and content."""
    given = {**(arguments or {}), **kwargs}
    texts = {k: v if isinstance(v, str) else dumps(v) for k, v in given.items() if v is not None}
    return (yield "prompts.get", {"server": server, "name": name, "arguments": texts})


def complete(
    _: Any, server: str, ref: Any, argument: str, value: str = "", arguments: dict[str, Any] | None = None
) -> Steps:
    """What the server suggests for one argument of a prompt (by its name) or of a resource's template.

    value is what there is of it so far, arguments what is known of the others.
    """
    if isinstance(ref, str):
        address = "://" in ref or "{" in ref
        ref = {"type": "ref/resource", "uri": ref} if address else {"type": "ref/prompt", "name": ref}
    params = {"server": server, "ref": ref, "argument": {"name": argument, "value": value}}
    if arguments:
        params["context"] = {"arguments": arguments}
    answer = yield "complete", params
    return (answer.get("completion") or {}).get("values") or []


def server_info(_: Any, server: str) -> Steps:
    """What the server says of itself: name, version, protocolVersion, capabilities, instructions."""
    return (yield "server.info", {"server": server})
