"""Digests of files, by which `run-tests` and `stage` recognise what has passed already."""

import hashlib
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def digest(paths):
    total = hashlib.sha256()
    for path in paths:
        total.update(f"{path}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def tree(*, is_rust):
    """Of the repository's files, untracked ones included: of Rust sources, or of all others."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    paths = sorted(ROOT / os.fsdecode(name) for name in listed.split(b"\0") if name)
    return digest(path for path in paths if (path.suffix == ".rs") == is_rust and path.is_file())
