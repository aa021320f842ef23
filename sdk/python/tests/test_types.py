"""What a type checker finds in programs that use this package."""

from __future__ import annotations

from pathlib import Path

from mypy import api

SOURCE = Path(__file__).parents[1] / "src"
PROGRAM = """
from receipts_client import AsyncClient, Client, Options, PemSigner, Use

signer = PemSigner.from_env()
options = Options(batch_delay_s=2)
client = Client("http://a.example", "1", signer, spool_dir="spool", options=options)
use = Use("https://news.example/", "training", "a", content="b")
identifier: str = client.record(use)


async def run() -> None:
    async with AsyncClient(client) as awaited:
        other: str = await awaited.record(use)
        print(other)
"""
MISTAKES = {
    'Client("http://a.example", "1", signer, spooldir="spool")': "spooldir",
    'Client("http://a.example", "1", signer, options={})': "arg-type",
    "Options(batch_receipt_max=5)": "batch_receipt_max",
    'Options(batch_receipts_max="five")': "arg-type",
    'Use("https://news.example/", "trainning", "a", content="b")': "arg-type",
    'Use("https://news.example/", "training", "a", contents="b")': "contents",
}


def test_misspelt_options_are_found_by_mypy(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + "".join(f"{line}\n" for line in MISTAKES))
    config = tmp_path / "mypy.ini"
    config.write_text(f"[mypy]\nstrict = True\nmypy_path = {SOURCE}\n")
    cache = str(tmp_path / "cache")
    found, _, _ = api.run(["--config-file", str(config), "--cache-dir", cache, str(program)])
    lines = [line for line in found.splitlines() if ": error:" in line]
    assert len(lines) == len(MISTAKES), found
    for line, expected in zip(lines, MISTAKES.values(), strict=True):
        assert expected in line
