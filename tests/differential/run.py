#!/usr/bin/env python3
"""Random tables and statements whose answers must be the same, asked in two ways; README.md says which.

    tests/differential/run.py BIN [--seeds 1-100000] [--seconds 60] [--pairs 10000] [--checks DuckDB,NoREC]

A seed is a test case: `--seeds 17` brings back what was printed for it. Exit status 1: something differs. Needs duckdb.
"""

import argparse
import collections
import multiprocessing
import os
import pathlib
import queue
import sys
import time
import traceback

import lambdas
import look_ups
import minimise
import reported
import spills
from case import Case
from sessions import Client, Compared


def work(options, ports, directory, seeds, found, end):
    """One of the processes: takes seeds until there are none or the time is over."""
    client = Client(*ports)
    while time.monotonic() < end.value:
        with seeds.get_lock():
            seed = seeds.value
            seeds.value += 1
        if seed > options.last:
            break
        try:
            found.put(one_case(client, directory, seed, options, lambda: time.monotonic() > end.value))
        except Exception:
            client.lost()
            found.put((collections.Counter(), [("a case that could not be run", seed, traceback.format_exc(limit=-4))]))
    found.put(None)


def one_case(client, directory, seed, options, enough):
    """Pairs by check, and findings as (signature, seed, script)."""
    if seed % spills.EVERY == 0 and (not options.checks or "spill" in options.checks):
        return spills.check(client, seed)
    if seed % lambdas.EVERY == 0 and (not options.checks or "lambda" in options.checks):
        return lambdas.check(client, seed)
    case = Case(client, directory, seed)
    case.wanted = options.checks
    case.run(options.statements, enough)
    scripts = {}
    for finding in case.findings:
        signature = finding.signature()
        if signature in scripts or len(scripts) >= options.most:
            scripts.setdefault(signature, "")
            continue
        scripts[signature] = minimise.reduced(finding, options.minimise) if options.minimise else minimise.whole(finding, "")
    case.drop()
    return case.pairs, [(signature, seed, script) for signature, script in scripts.items()]


def arguments():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("binary")
    words.add_argument("--seeds", default="1-", help="one, or first and last")
    words.add_argument("--statements", type=int, default=60, help="of each seed, with several checks each")
    words.add_argument("--seconds", type=float, default=60, help="no statement begins later than this")
    words.add_argument("--pairs", type=int, help="ends after so many")
    words.add_argument("--checks", type=lambda s: s.split(","), help="those whose names contain one of these words")
    words.add_argument("--minimise", type=float, default=20, metavar="SECONDS", help="for each finding; 0: print it as it is")
    words.add_argument("--most", type=int, default=3, help="findings of a seed that are made small")
    words.add_argument("--processes", type=int, default=(os.cpu_count() or 1) + 1)
    options = words.parse_args()
    first, dash, last = options.seeds.partition("-")
    options.first, options.last = int(first), int(last or (sys.maxsize if dash else first))
    return options


def main():
    options = arguments()
    server = Compared(options.binary)
    begin = time.monotonic()
    seeds, end, found = multiprocessing.Value("q", options.first), multiprocessing.Value("d", begin + options.seconds), multiprocessing.Queue()
    task = (options, (server.mysql, server.http), pathlib.Path(server.files), seeds, found, end)
    processes = [multiprocessing.Process(target=work, args=task, daemon=True) for _ in range(options.processes)]
    for process in processes:
        process.start()
    pairs, findings, running = collections.Counter(), [], len(processes)
    try:
        while running:
            try:
                result = found.get(timeout=5)
            except queue.Empty:
                if server.process.poll() is not None:
                    findings.append("server")
                    print(f"the server died:\n{server.log.read_text()[-4000:]}")
                    break
                if not any(process.is_alive() for process in processes) and found.empty():
                    findings.append("driver")
                    print("the processes that ask have ended before their time; their errors are above")
                    break
                continue
            if result is None:
                running -= 1
                continue
            pairs += result[0]
            for signature, seed, script in result[1]:
                findings.append(signature)
                if script:
                    print(f"seed {seed}: {signature}\n{script}\n", flush=True)
            if options.pairs and total(pairs) >= options.pairs:
                end.value = 0
        seconds = time.monotonic() - begin
        if server.process.poll() is None and (not options.checks or "look-up" in options.checks):
            asked, different = look_ups.check(Client(server.mysql, server.http), options.first)
            pairs["look-ups of few plans"] += asked
            findings += different
        if server.process.poll() is None and (not options.checks or "reported" in options.checks):
            asked, different = reported.check(Client(server.mysql, server.http))
            pairs["reported of DataFusion"] += asked
            for signature, _, script in different:
                findings.append(signature)
                print(f"{signature}\n{script}\n")
    finally:
        server.stop()
    for name, count in pairs.most_common():
        print(f"{count:8} {name}")
    print(f"differential: {total(pairs)} pairs of answers, {total(pairs) / seconds:.0f}/s, {len(findings)} differences")
    sys.exit(bool(findings))


def total(pairs):
    return sum(count for name, count in pairs.items() if name != "unfit")


if __name__ == "__main__":
    main()
