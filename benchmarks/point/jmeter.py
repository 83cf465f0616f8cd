#!/usr/bin/env python3
"""Runs the article's JMeter plan: fetches JMeter and Connector/J from Maven Central, a Java runtime by apt."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from servers import apt

HERE = Path(__file__).resolve().parent
CACHE = Path("~/.cache/dipper/tests/jmeter").expanduser()

OPTIONS = "characterEncoding=utf8&useSSL=false"
PREPARED = "useServerPrepStmts=true"
CACHED = "cachePrepStmts=true&prepStmtCacheSqlLimit=1024"

# The article's parameter table: what is changed, options of the URL, threads.
VARIANTS = [
    ("as in the article", [OPTIONS, PREPARED, CACHED], 100),
    ("without useServerPrepStmts", [OPTIONS, CACHED], 100),
    ("without cachePrepStmts", [OPTIONS, PREPARED], 100),
    ("5 threads", [OPTIONS, PREPARED, CACHED], 5),
    ("10,000 threads", [OPTIONS, PREPARED, CACHED], 10_000),
]

# What the article and the forum posts after it write, and what is meant. HOST stands for host and port.
URLS = [
    "jdbc:mysql:loadbalance://HOST/ssb_test?characterEncoding=utf8&useSSL=false&useServerPrepStmts=true&cachePrepStmts=true&prepStmtCacheSqlLimit=1024",
    "jdbc:mysql:loadbalance://HOST/ssb_test?characterEncoding=utf8&amp;useSSL=false&amp;useServerPrepStmts=true;cachePrepStmts=true&amp;prepStmtCacheSqlLimit=1024",
    "jdbc:mysql:loadbalance://HOST/ssb_test?characterEncoding=utf8&useSSL=false&useServerPrepStmts=true;cachePrepStmts=true&prepStmtCacheSqlLimit=1024",
    "jdbc:mysql:loadbalance://HOST/ssb_test?useSSL=false&amp;useServerPrepStmts=true",
    "jdbc:mysql://HOST/ssb_test?useSSL=false&useServerPrepStmts=true&cachePrepStmts=true",
]


def install():
    """A JMeter home, as its distribution lays it out."""
    apt({"java": "openjdk-17-jdk-headless", "mvn": "maven"})
    pom = (HERE / "pom.xml").read_text()
    stamp = CACHE / "installed"
    if stamp.exists() and stamp.read_text() == pom:
        return CACHE
    shutil.rmtree(CACHE, ignore_errors=True)
    CACHE.mkdir(parents=True)
    subprocess.run(["mvn", "-q", "-B", "-f", HERE / "pom.xml", "dependency:copy-dependencies", f"-DoutputDirectory={CACHE}/lib"],
                   check=True)  # fmt: skip
    (CACHE / "lib" / "ext").mkdir()
    (CACHE / "bin").mkdir()
    for jar in (CACHE / "lib").glob("ApacheJMeter*.jar"):
        name = jar.name.partition("-")[0]
        if name == "ApacheJMeter":
            jar.rename(CACHE / "bin" / "ApacheJMeter.jar")
        elif name == "ApacheJMeter_config":
            with zipfile.ZipFile(jar) as files:
                files.extractall(CACHE, [file for file in files.namelist() if file.startswith("bin/")])
        else:
            jar.rename(CACHE / "lib" / "ext" / f"{name}.jar")
    stamp.write_text(pom)
    return CACHE


def urls(host):
    """What Connector/J makes of the URLs."""
    home = install()
    command = ["java", "-cp", f"{home}/lib/*", HERE / "Urls.java", *(url.replace("HOST", host) for url in URLS)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def run(host, keys, options, threads, seconds, cores=None):
    """Requests a second, mean milliseconds and failed requests."""
    home = install()
    with tempfile.TemporaryDirectory(prefix="dipper-jmeter-") as work:
        command = [
            "java", "-Xms512m", f"-Xmx{'3g' if threads > 1000 else '1g'}", "-Xss256k", "-XX:+UseParallelGC",
            "-jar", home / "bin" / "ApacheJMeter.jar", "-n", "-t", HERE / "row_part.jmx", "-j", f"{work}/log",
            f"-Jurl=jdbc:mysql:loadbalance://{host}/ssb_test?{'&'.join(options)}", f"-Jkeys={Path(keys).resolve()}",
            f"-Jthreads={threads}", f"-Jseconds={seconds}", "-Jsummariser.name=all", "-Jsummariser.interval=6",
            "-Jjmeter.save.saveservice.output_format=csv",
        ]  # fmt: skip
        bind = (lambda: os.sched_setaffinity(0, cores)) if cores else None
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, preexec_fn=bind, timeout=seconds * 4 + 180)
        log = Path(work, "log").read_text() if Path(work, "log").exists() else ""
    # The first interval has the start of the virtual machine in it; the sum of all is the last line.
    found = re.findall(
        r"all ([+=])\s+(\d+) in\s+(\S+)\s+=\s+([\d.]+)/s Avg:\s+(\d+) Min:\s+\d+ Max:\s+(\d+) Err:\s+(\d+)", done.stdout
    )
    totals = [line for line in found if line[0] == "="]
    steps = [float(line[3]) for line in found if line[0] == "+"][1:-1]
    if not totals or int(totals[-1][1]) == 0:
        raise RuntimeError(f"JMeter: {done.stdout[-1500:]}{done.stderr[-500:]}{log[-1500:]}")
    rate = sorted(steps)[len(steps) // 2] if steps else float(totals[-1][3])
    if int(totals[-1][6]):
        errors = [line for line in log.splitlines() if "ERROR" in line or "WARN" in line]
        print("\n".join(errors[:3]), file=sys.stderr)
    return {"qps": rate, "mean_ms": int(totals[-1][4]), "failed": int(totals[-1][6]), "requests": int(totals[-1][1])}


def table(host, keys, seconds, cores=None):
    """Markdown lines of the article's parameter table."""
    lines = ["| JMeter | requests/s | mean | failed |", "|---|---|---|---|"]
    for name, options, threads in VARIANTS:
        reply = run(host, keys, options, threads, seconds, cores)
        lines.append(f"| {name} | {reply['qps']:.0f} | {reply['mean_ms']} ms | {reply['failed']} of {reply['requests']} |")
        print(lines[-1], file=sys.stderr)
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1:9030", help="host and MySQL port of a server with ssb_test.row_part")
    parser.add_argument("--keys", help="CSV file of keys, without a header: select p_partkey, p_name from ... limit 3000")
    parser.add_argument("--seconds", type=int, default=60, help="for each line of the table")
    parser.add_argument("--urls", action="store_true", help="only try what Connector/J makes of the article's URL")
    args = parser.parse_args()
    if args.urls:
        print(urls(args.host), end="")
        return
    if not args.keys:
        parser.error("--keys is needed")
    print("\n".join(table(args.host, args.keys, args.seconds)))


if __name__ == "__main__":
    main()
