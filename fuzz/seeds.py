#!/usr/bin/env python3
"""Writes the statements of tests/slt and tests/forms as the first inputs of the fuzz target `sql`.

Usage: python3 fuzz/seeds.py [DIRECTORY]; the directory is fuzz/corpus/sql if none is named, where cargo-fuzz looks.
The first byte of an input says how quotes and `||` are read (crates/dialect/tests/support/statements.rs); here it is 0,
which is the default.
"""

import hashlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def statements():
    for path in sorted((ROOT / "tests/slt").rglob("*.slt")):
        for block in path.read_text().split("\n\n"):
            lines = [line for line in block.splitlines() if not line.startswith(("#", "onlyif", "skipif"))]
            if lines and lines[0].startswith(("statement", "query")):
                end = lines.index("----") if "----" in lines else len(lines)
                yield "\n".join(lines[1:end])
    for path in sorted((ROOT / "tests/forms").glob("*.txt")):
        for line in path.read_text().splitlines():
            parts = line.split(" ", 2)
            if len(parts) == 3 and not line.startswith(("#", ">", "=")):
                yield parts[2]


def main():
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "fuzz/corpus/sql"
    target.mkdir(parents=True, exist_ok=True)
    written = set()
    for statement in statements():
        seed = b"\0" + statement.encode()
        name = hashlib.sha1(seed).hexdigest()
        (target / name).write_bytes(seed)
        written.add(name)
    print(f"{len(written)} seeds in {target}")


main()
