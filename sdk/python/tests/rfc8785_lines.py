"""Writes the canonical form of each line by the package rfc8785 (conformance/README.md)."""

import json
import sys

import rfc8785

for line in sys.stdin.buffer:
    # That package refuses integers beyond 2^53.
    sys.stdout.buffer.write(rfc8785.dumps(json.loads(line, parse_int=float)) + b"\n")
