"""Writes the canonical form of each line of the standard input (conformance/README.md)."""

import sys

from receipts_client.canonical import canonicalize, parse


def main() -> None:
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(canonicalize(parse(line)) + b"\n")


if __name__ == "__main__":
    main()
