#!/usr/bin/env python3
"""Reads Parquet files that other writers wrote, and asks what is in them: `tests/files/run.py BIN`.

make.py says where files and answers come from.
"""

import concurrent.futures
import json
import math
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TIME = re.compile(r"\d{4}-\d\d-\d\dT")


def equal(have, want):
    if isinstance(want, float):
        return have is not None and math.isclose(float(have), want, rel_tol=1e-6)
    if isinstance(want, str) and isinstance(have, (int, float)) and not isinstance(have, bool):
        return str(have) == want
    if isinstance(have, bool):
        have = str(int(have))
    if isinstance(have, str) and TIME.match(have):
        # However many digits the type has.
        have, want = ((v.replace("T", " ") + ".").rstrip("0.") for v in (have, str(want)))
    return have == want


def fault(binary, case):
    """What is wrong with the answer to a case; nothing if it is right."""
    sql = case["sql"].replace("$D", str(HERE / "data"))
    done = subprocess.run([binary, "sql", "-q", "--format", "jsonl", sql], capture_output=True, text=True, timeout=120)
    if "error" in case:
        return None if done.returncode and re.search(case["error"], done.stderr) else f"no error as wanted: {done.stdout}{done.stderr}"
    if done.returncode or "panicked" in done.stderr:
        return done.stderr.strip()
    rows = [list(json.loads(line, parse_float=str, parse_int=str).values()) for line in done.stdout.splitlines() if line.strip()]
    if len(rows) != len(case["want"]):
        return f"{len(rows)} rows, not {len(case['want'])}: {rows}"
    for have, want in zip(rows, case["want"]):
        wrong = [n for n, (a, b) in enumerate(zip(have, want)) if not equal(a, b)]
        if wrong or len(have) != len(want):
            return f"columns {wrong} of {have}, not {want}\n     {sql}"
    return None


def main():
    binary, cases = sys.argv[1], json.loads((HERE / "cases.json").read_text())
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        faults = list(pool.map(lambda case: fault(binary, case), cases))
    for case, wrong in zip(cases, faults):
        if wrong:
            print(f"FAIL {case['name']}: {wrong}")
    bad = sum(wrong is not None for wrong in faults)
    print(f"files: {len(cases) - bad} of {len(cases)} answers are right")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
