#!/usr/bin/env python3
"""Runs programs that users of Doris and StarRocks work with against a dipper server; see README.md."""

import argparse
import functools
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "clients"))
import run as clients  # noqa: E402  (the directory of the client programs is no package)

import everyday  # noqa: E402

CACHE = clients.CACHE / "tools"
TOOL_SECONDS = 600

# What Spark and Flink reach into by reflection under Java 17.
OPENED = [
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
]


def java_program(directory, program, *options):
    """A program of one Java file with the libraries of the pom.xml beside it, compiled when one of both has changed."""
    clients.need("javac", "openjdk-17-jdk-headless")
    clients.need("mvn", "maven")
    source = HERE / directory / f"{program}.java"
    pom = HERE / directory / "pom.xml"
    place = CACHE / directory
    if not clients.stamped(place, pom, source):
        clients.run(["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={place}/lib"])
        clients.run(["javac", "-nowarn", "-cp", f"{place}/lib/*", "-d", place / "classes", source])
        clients.stamp(place, pom, source)
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    return ["java", *opened, *options, "-cp", f"{place}/classes:{place}/lib/*", program]


def jdbc_drivers():
    """A program of one Java file, and the drivers that drivers.txt names, of which several have one name."""
    clients.need("java", "openjdk-17-jdk-headless")
    clients.need("mvn", "maven")
    wanted = HERE / "jdbc" / "drivers.txt"
    place = CACHE / "jdbc"
    if not clients.stamped(place, wanted):
        for artifact in wanted.read_text().split():
            clients.run(["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={place}"])
        clients.stamp(place, wanted)
    return ["java", HERE / "jdbc" / "Metadata.java", place]


def go_program(directory):
    """A program of one Go module, built when it has changed."""
    clients.need("go", "golang-go")
    place = CACHE / directory
    place.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ, GOFLAGS="-mod=readonly", GOTOOLCHAIN="local", CGO_ENABLED="0")
    clients.run(["go", "build", "-o", place / directory, "."], cwd=HERE / directory, env=environment)
    return [place / directory]


# Each gives a command; the ports of MySQL and HTTP are put behind it. Programs print `ok NAME` or `FAILED NAME` for each check.
TOOLS = {
    **{name: functools.partial(everyday.command, name) for name in everyday.TOOLS},
    "streamloader": lambda: go_program("streamloader"),
    "jdbc": jdbc_drivers,
    "jooq": lambda: java_program("jooq", "Jooq"),
    "flink": lambda: java_program("flink", "Sinks", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"),
    "spark": lambda: java_program("spark", "Writes"),
}
# Some statements set global variables, which programs behind them would see.
TOOLS["statements"] = TOOLS.pop("statements")


def test(name, mysql, http):
    """Runs one tool; the numbers of checks passed and failed."""
    try:
        command = TOOLS[name]()
    except (clients.Missing, subprocess.TimeoutExpired) as error:
        print(f"{name}: FAILED install: {error}")
        return 0, 1
    work = CACHE / "work" / name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        done = subprocess.run(
            [str(word) for word in [*command, mysql, http]],
            cwd=work,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=TOOL_SECONDS,
            check=False,
        )
        output, code = done.stdout, done.returncode
    except subprocess.TimeoutExpired as error:
        output, code = (error.stdout or b"").decode("utf-8", "replace"), f"stopped after {TOOL_SECONDS} s"
    lines = output.splitlines()
    passed = sum(line.startswith("ok ") for line in lines)
    failed = sum(line.startswith("FAILED ") for line in lines)
    if code != 0 or passed == 0:
        # The reasons are between the lines that are counted.
        failed = max(failed, 1)
        print(f"{name}: exit {code}:\n{output[-6000:]}")
    for line in lines:
        if line.startswith(("ok ", "FAILED ")):
            print(f"{name}: {line}")
    return passed, failed


def main():
    parser = argparse.ArgumentParser(description="Programs of Doris's and StarRocks' users against a dipper server.")
    parser.add_argument("tools", nargs="*", metavar="TOOL", help=f"which ones: {', '.join(TOOLS)} (default all)")
    parser.add_argument("--server", type=pathlib.Path, default=clients.default_server(), help="dipper binary (default %(default)s)")
    arguments = parser.parse_args()
    names = arguments.tools or list(TOOLS)
    unknown = [name for name in names if name not in TOOLS]
    if unknown:
        parser.error(f"no such tool: {', '.join(unknown)}; there are {', '.join(TOOLS)}")
    passed = failed = 0
    with clients.server(arguments.server) as server:
        for name in names:
            good, bad = test(name, server.mysql, server.http)
            passed += good
            failed += bad
            sys.stdout.flush()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
