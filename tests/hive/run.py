#!/usr/bin/env python3
"""External catalogs against real servers: a Hive metastore, HDFS, S3. See README.md.

    tests/hive/run.py BIN [--only WORD]

BIN is a dipper binary. Everything is installed below ~/.cache/dipper and runs on loopback.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import services

HERE = pathlib.Path(__file__).resolve().parent


def in_environment():
    """Runs this program again with the Python packages that it needs."""
    directory, wanted = services.CACHE / "hive", HERE / "requirements.txt"
    python = directory / "venv/bin/python"
    if not services.stamped(directory, wanted):
        subprocess.run([sys.executable, "-m", "venv", directory / "venv"], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", wanted], check=True)
        (directory / "installed").write_text(wanted.read_text())
    if pathlib.Path(sys.prefix) != directory / "venv":
        os.execv(python, [python, *sys.argv])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--only", default="", help="checks whose name has this word")
    arguments = parser.parse_args()
    in_environment()
    import checks
    import iceberg_checks

    with tempfile.TemporaryDirectory(prefix="dipper-hive-") as temporary:
        root = pathlib.Path(temporary)
        started = []
        try:
            world = checks.World(root, arguments.binary.resolve(), started)
            # HDFS is stopped by `tables_in_hdfs`, the metastore by the last of `checks`.
            order = [checks.text_in_hdfs, *iceberg_checks.ALL, *(c for c in checks.ALL if c != checks.text_in_hdfs)]
            chosen = [c for c in order if arguments.only in c.__name__]
            failed = 0
            for check in chosen:
                try:
                    note = check(world)
                    print(f"ok    {check.__name__}{f' ({note})' if note else ''}", flush=True)
                except Exception as e:  # one check that fails does not hide the others
                    failed += 1
                    print(f"FAIL  {check.__name__}: {type(e).__name__}: {e}", flush=True)
            print(f"{len(chosen) - failed} of {len(chosen)} checks passed")
            return failed != 0 or not chosen
        finally:
            for server in reversed(started):
                server.stop()


if __name__ == "__main__":
    sys.exit(main())
