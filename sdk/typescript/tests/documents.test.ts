// What README, changelog and package.json say of this package.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { DEFAULT_LIMITS } from "receipts-client";

import { VERSION } from "../dist/version.js";

const root = new URL("../../../", import.meta.url);
// The release checklist says where the address of the repository is written.
const BASE = "https://receipts.example.com/source/";
const read = (path: string) => readFileSync(new URL(path, root), "utf8");
const readme = read("sdk/typescript/README.md");
const manifest = JSON.parse(read("sdk/typescript/package.json")) as Record<string, never>;

test("links are absolute and lead to files", () => {
  const links = [
    ...readme.matchAll(/\]\(([^)]+)\)/g),
    ...readme.matchAll(/^\[[^\]]+\]: (\S+)$/gm),
  ].map(([, link]) => link as string);
  assert.ok(links.length > 5);
  for (const link of links) {
    assert.ok(link.startsWith(BASE), `${link} breaks on the registry's page`);
    const [path, anchor] = link.slice(BASE.length).split("#") as [string, string?];
    const titles = [...read(path).matchAll(/^#+ (.+)$/gm)].map(([, title]) => title as string);
    const anchors = titles.map((title) => title.toLowerCase().replaceAll(" ", "-"));
    if (anchor) assert.ok(anchors.includes(anchor), link);
  }
});

test("package.json says where the package comes from", () => {
  const { homepage, repository, bugs } = manifest as Record<string, any>;
  for (const url of [homepage, repository.url.replace("git+", ""), bugs.url]) {
    assert.ok(url.startsWith(BASE), url);
  }
  assert.equal(repository.directory, "sdk/typescript");
  // Until the first release.
  const options = { cwd: new URL("sdk/typescript/", root), encoding: "utf8" } as const;
  const check = spawnSync(process.execPath, ["tests/publishable.mjs"], options);
  assert.match(check.stderr, /write the repository's address/);
  assert.equal(check.status, 1);
});

test("the changelog begins with this version, which the code has", () => {
  const [, version] = /^## ([0-9.]+)/m.exec(read("sdk/typescript/CHANGELOG.md")) ?? [];
  assert.equal(version, manifest["version"]);
  assert.equal(VERSION, manifest["version"]);
});

test("metrics are those of all libraries", () => {
  const [, text] =
    /`onMetric` gets a name and a number: (.*?)`client\.state\(\)`/s.exec(readme) ?? [];
  const [, table] = /^## Metrics$(.*?)^## /ms.exec(read("conformance/README.md")) ?? [];
  const common = [...(table ?? "").matchAll(/^\| `([a-z_]+)` \|/gm)].map(([, name]) => name);
  const ours = [...(text ?? "").matchAll(/`([a-z_]+)`/g)].map(([, name]) => name);
  assert.deepEqual(ours, common);
  assert.equal(common.length, 7);
});

test("the table of options is complete", () => {
  const [, table] = /^\| option \|.*?\n\|.*?\n(.*?)\n\n/ms.exec(readme) ?? [];
  const names = (table ?? "").split("\n").flatMap((row) => {
    return [...(row.split("|")[1] ?? "").matchAll(/`(\w+)`/g)].map(([, name]) => name);
  });
  const source = read("sdk/typescript/src/client.ts");
  const [, options] = /^const OPTIONS = \{(.*?)^\}/ms.exec(source) ?? [];
  const own = [...(options ?? "").matchAll(/^  (\w+): true/gm)].map(([, name]) => name);
  const required = ["url", "clientId", "signer"];
  const all = [...own, ...Object.keys(DEFAULT_LIMITS)].filter((name) => !required.includes(name!));
  assert.deepEqual(names.sort(), all.sort());
});
