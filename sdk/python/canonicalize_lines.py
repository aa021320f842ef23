"""Writes the canonical form of each line of the standard input (conformance/README.md)."""

import sys

from receipts_client.canonical import CanonicalError, canonicalize, parse


def main() -> None:
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            canonical = canonicalize(parse(line))
        except CanonicalError as error:
            print(f"line {number}: {error}", file=sys.stderr)
            canonical = b""
        sys.stdout.buffer.write(canonical + b"\n")


if __name__ == "__main__":
    main()
