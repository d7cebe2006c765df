"""Drives a Jupyter kernel for the benchmarks.

Reads lines of JSON, {"code": "...", "n": 50}, runs the code n times, and answers
each line with {"us": [...], "shown": [["text/plain", "2"], ...]}: how long each
run took in microseconds, from the request to its reply, its outputs and the
kernel's going idle; and what the last one put out.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

PATIENCE = 60  # seconds for any one message


def main() -> None:
    """Runs until stdin ends."""
    # Sockets of files: they are faster than TCP.
    manager = KernelManager(transport="ipc", ip=os.path.join(tempfile.mkdtemp(), "kernel"))
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PATIENCE)
        for line in sys.stdin:
            order = json.loads(line)
            print(json.dumps(repeat(client, order["code"], order["n"])), flush=True)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def repeat(client: BlockingKernelClient, code: str, n: int) -> dict[str, Any]:
    """Runs code n times."""
    took, contents = [], []
    for _ in range(n):
        began = time.perf_counter()
        contents = run(client, code)
        took.append((time.perf_counter() - began) * 1e6)
    return {"us": took, "shown": [pair for content in contents for pair in shown(content)]}


def run(client: BlockingKernelClient, code: str) -> list[dict[str, Any]]:
    """Runs code once and returns the contents of its messages."""
    # Without a history, which costs the kernel a database.
    request = client.execute(code, store_history=False)
    contents = []
    while True:
        message = client.get_iopub_msg(timeout=PATIENCE)
        if message["parent_header"].get("msg_id") != request:
            continue
        if message["content"].get("execution_state") == "idle":
            break
        contents.append(message["content"])
    while client.get_shell_msg(timeout=PATIENCE)["parent_header"].get("msg_id") != request:
        pass
    return contents


def shown(content: dict[str, Any]) -> list[tuple[str, str]]:
    """What one message shows: pairs of a MIME type and data."""
    if "ename" in content:
        return [("error", f"{content['ename']}: {content['evalue']}")]
    if "text" in content:
        return [("text/plain", content["text"])]
    return list(content.get("data", {}).items())


main()
