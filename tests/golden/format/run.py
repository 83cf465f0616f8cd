#!/usr/bin/env python3
"""Golden data directories: what older builds wrote is read, and written to, by this build.

    run.py BINARY            every archive gives its answers, from a directory and from a bucket, and takes changes
    run.py BINARY --make     writes the archive of the formats that this build writes, with its answers

An archive FORMATS.tar.xz is a data directory; FORMATS are the numbers of the formats in it (docs/formats.md). FORMATS.txt has the
answers to asks.sql. When a build writes a new format, this test fails until the archive of that format is made and added; the older
archives stay for ever. `--make` never changes an archive that is there.
"""

import argparse
import io
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "support"), str(HERE.parents[1] / "faults")]
import memory  # noqa: E402
from server import clean_environment  # noqa: E402

# Kinds of objects of a chain, with the letters that the name of an archive has for them.
KINDS = {b"vers": "v", b"ckpt": "k", b"part": "p"}
WRITES = """
INSERT INTO shop.orders (id, city, amount) VALUES (1, 'Turin', 2), (9001, 'Quito', 3);
UPDATE shop.orders SET amount = 0 WHERE id = 3;
DELETE FROM shop.orders WHERE id = 4;
INSERT INTO shop.daily VALUES ('2024-01-05', 'Rome', 100, 0, 0, 'd', to_bitmap(1), hll_hash('x'));
ALTER TABLE shop.orders ADD COLUMN newest INT DEFAULT '1';
ADMIN COMPACT TABLE shop.orders;
CREATE TABLE shop.more LIKE shop.types;
INSERT INTO shop.more SELECT * FROM shop.types;
SELECT count(*), sum(amount = 0), sum(newest) FROM shop.orders;
SELECT city FROM shop.orders WHERE id = 1;
SELECT total, bitmap_to_string(users) FROM shop.daily WHERE city = 'Rome';
SELECT count(*) FROM shop.more;
"""
WRITTEN = ["1991,1,1991", "Turin", '111,"1,7,9"', "2"]


def dipper(binary, *arguments, environment=None):
    done = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False,
                          env=environment or clean_environment())
    if done.returncode != 0:
        raise SystemExit(f"FAILED: dipper {' '.join(map(str, arguments))}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def numbers(directory):
    """The formats of what is in a directory, by the letters of the name of its archive."""
    found = {"directory": int(re.search(rb"format (\d+)", (directory / ".dipper/format").read_bytes())[1])}
    for file in sorted(directory.rglob("*")):
        data = file.read_bytes() if file.is_file() else b""
        if data[:8] == b"DIPPERch":
            record, state, kind = *struct.unpack("<HH", data[8:12]), data[12:16]
            place = "catalog" if "catalog" in file.parts else "table" if "t" in file.relative_to(directory).parts[:1] else "label"
            found[place] = max(state, found.get(place, 0))
            if kind in KINDS:
                found[KINDS[kind]] = max(record, found.get(KINDS[kind], 0))
        elif data[:4] == b"PAR1":
            # A pair of strings in Thrift's compact form: a field's header, a length and bytes each.
            [number] = set(re.findall(rb"dipper\.format\x18[\x01-\x05](\d+)", data))
            found["object"] = max(int(number), found.get("object", 0))
    return found


def name_of(found):
    """`directory1-catalog6-table1-object1-v1-k3-p2`"""
    order = ["directory", "catalog", "table", "label", "object", *KINDS.values()]
    return "-".join(f"{kind}{found[kind]}" for kind in order if kind in found)


def made(binary, directory):
    dipper(binary, "sql", "--data", directory, "-q", "-f", HERE / "make.sql")


def answers(binary, data, environment=None):
    return dipper(binary, "sql", "--data", data, "-q", "--format", "vertical", "-f", HERE / "asks.sql", environment=environment)


def differs(found, expected, where):
    if found == expected:
        return
    import difflib

    lines = difflib.unified_diff(expected.splitlines(), found.splitlines(), "expected", "found", lineterm="", n=1)
    raise SystemExit(f"FAILED: {where}\n" + "\n".join(list(lines)[:60]))


def make(binary, directory):
    made(binary, directory)
    name = name_of(numbers(directory))
    archive = HERE / f"{name}.tar.xz"
    if archive.exists():
        raise SystemExit(f"{archive.name} is there already: this build writes no new format")
    shutil.rmtree(directory / ".dipper/nodes", ignore_errors=True)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:xz") as tar:
        tar.add(directory, "data", filter=lambda entry: entry.replace(uid=0, gid=0, uname="root", gname="root", deep=False))
    archive.write_bytes(out.getvalue())
    archive.with_name(f"{name}.txt").write_text(answers(binary, directory))
    print(f"{archive.name}: {len(out.getvalue())} bytes")


def read(binary, archive, work):
    """One archive: answers from the directory, from a bucket, and after changes."""
    with tarfile.open(archive) as tar:
        tar.extractall(work, filter="data")
    data, expected = work / "data", archive.with_name(archive.name.replace(".tar.xz", ".txt")).read_text()
    dipper(binary, "check", "-q", data)
    differs(answers(binary, data), expected, f"{archive.name} as a directory")
    store = memory.Store()
    for file in sorted(data.rglob("*")):
        path = file.relative_to(data)
        if file.is_file() and path.parts[0] != ".dipper":
            store.put("b", f"db/{path}", file.read_bytes())
    environment = clean_environment(AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret", DIPPER_S3_ENDPOINT=store.url,
                                    DIPPER_CACHE_DIR=str(work / "cache"))
    differs(answers(binary, "s3://b/db", environment), expected, f"{archive.name} as a bucket")
    for place, settings in ((data, None), ("s3://b/db", environment)):
        out = dipper(binary, "sql", "--data", place, "-q", "--format", "csv", WRITES, environment=settings)
        found = out.splitlines()[1::2]
        differs("\n".join(found), "\n".join(WRITTEN), f"{archive.name} after changes in {place}")
        dipper(binary, "check", "-q", place, environment=settings)
    store.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--make", action="store_true")
    arguments = parser.parse_args()
    binary = os.path.abspath(arguments.binary)
    with tempfile.TemporaryDirectory(prefix="dipper-golden-") as work:
        work = pathlib.Path(work)
        if arguments.make:
            make(binary, work / "made")
            return
        archives = sorted(HERE.glob("*.tar.xz"))
        for archive in archives:
            place = work / archive.name
            place.mkdir()
            read(binary, archive, place)
            print(f"ok    {archive.name}", flush=True)
        made(binary, work / "made")
        name = name_of(numbers(work / "made"))
        if HERE / f"{name}.tar.xz" not in archives:
            sys.exit(f"this build writes {name}, of which there is no archive: {sys.argv[0]} BINARY --make")
        print(f"ok    this build writes {name}")


if __name__ == "__main__":
    main()
