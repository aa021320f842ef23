"""What README, changelog and conformance/README.md say of this package."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from receipts_client import Options, __version__

PACKAGE = Path(__file__).parents[1]
ROOT = PACKAGE.parents[1]
README = (PACKAGE / "README.md").read_text()
# docs/releases.md: the address of the repository.
BASE = "https://receipts.example.com/source/"


def test_links_are_absolute_and_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)]+)\)", README)
    links += re.findall(r"^\[[^]]+\]: (\S+)$", README, re.MULTILINE)
    assert len(links) > 5
    for link in links:
        if link.startswith("#"):
            page, anchor = README, link[1:]
        else:
            assert link.startswith(BASE), f"{link} breaks on the registry's page"
            path, _, anchor = link.removeprefix(BASE).partition("#")
            page = (ROOT / path).read_text()
        titles = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
        anchors = {re.sub(r"[^-a-z0-9]", "", title.lower().replace(" ", "-")) for title in titles}
        assert not anchor or anchor in anchors, link


def test_changelog_begins_with_this_version() -> None:
    changelog = (PACKAGE / "CHANGELOG.md").read_text()
    assert re.findall(r"^## ([0-9.]+)", changelog, re.MULTILINE)[0] == __version__


def test_metrics_are_those_of_all_libraries() -> None:
    names = re.compile(r"`([a-z_]+)`")
    ours = README.partition("`on_metric(name, value)`")[2].partition("`client.state()`")[0]
    table = (ROOT / "conformance" / "README.md").read_text()
    common = re.findall(
        r"^\| `([a-z_]+)` \|", table.partition("## Metrics")[2].partition("\n## ")[0], re.MULTILINE
    )
    assert names.findall(ours) == common and common
    code = "".join(file.read_text() for file in (PACKAGE / "src").rglob("*.py"))
    assert set(re.findall(r"\bmeasure\(\s*\"([a-z_]+)\"", code)) <= set(common)


def test_table_of_options_is_complete() -> None:
    table = README.partition("| keyword of `Options` |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    documented = [name for row in rows for name in re.findall(r"`([a-z_]+)`", row)]
    assert sorted(documented) == sorted(one.name for one in fields(Options))
