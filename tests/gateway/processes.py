"""`bayes-tacit serve` as a real program with worker processes, and what kills one of them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from command_line import PROGRAM


def free_port() -> int:
    """A port of this machine that nobody uses."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextmanager
def serving(router: Any, cheap: str, strong: str, folder: Path, *options: str, workers: int = 2):
    """Run the program, and give its process and its address once it serves."""
    router.save(folder / "router.json")
    port = free_port()
    command = [PROGRAM, "serve", str(folder / "router.json"), "--port", str(port)]
    command += ["--cheap", cheap, "--strong", strong, "--workers", str(workers), *options]
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            url = f"http://127.0.0.1:{port}"
            for _ in range(600):
                if process.poll() is not None:
                    break
                try:
                    httpx.get(f"{url}/health", timeout=2)
                    break
                except httpx.TransportError:
                    time.sleep(0.05)
            yield process, url
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def workers_of(process: subprocess.Popen[bytes]) -> list[int]:
    """The worker processes: those children that serve, not those that watch over shared things."""
    found = []
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            try:
                command = Path(f"/proc/{child}/cmdline").read_bytes()
            except OSError:
                continue
            if b"spawn_main" in command:
                found.append(int(child))
    return sorted(found)


def kill(worker: int) -> None:
    """Kill -9, and wait until it is gone."""
    os.kill(worker, signal.SIGKILL)
    for _ in range(400):
        try:
            state = Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.005)
