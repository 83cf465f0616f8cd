#!/usr/bin/env python3
"""The examples of README.md and docs/ give the output that the pages show, and no link between pages is dead.

    run.py BINARY [--update] [PAGE ...]

Each page has a directory and a database of its own, and its examples run in their order. The directory has a copy of
`examples/`, so paths are those of somebody who stands in the root of the repository.

- `sql`: one session of `dipper sql --data dipper-data --format table`, in the database `default`.
- `sh`: a script of the shell. `dipper server` starts in the background, on free ports; a page that asks port 8030 or
  9030 without starting a server finds one on the database `dipper-data`.
- `text` right behind one of these: its output, standard error included. `...` stands for anything, on a line of its own for
  any number of lines. An example whose output has a line with `ERROR` or `dipper: ` must fail, any other must succeed.
- `<!-- file: NAME -->` above a block: the block is written into that file.
- `<!-- not run: REASON -->` above an example: it is not run.

The pages of `docs/reference` are those that `dipper reference` writes; the pages of `docs/reference/statements` are written by hand, and
HELP answers from them. With `--update` outputs and these pages become what
they should be. Without PAGE all pages are looked at.
"""

import argparse
import concurrent.futures
import difflib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import fixtures
import pages

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from server import free_port  # noqa: E402

EXAMPLE_SECONDS = 60

# `dipper` on the path of examples. A server goes into the background; the script waits until it is ready.
DIPPER = """#!/bin/sh
if test "$1" != server || test "$2" = --help; then exec "$DOCS_BINARY" "$@"; fi
if test -f "$DOCS_HOME/server.pid"; then
  kill "$(cat "$DOCS_HOME/server.pid")" 2>/dev/null
  while kill -0 "$(cat "$DOCS_HOME/server.pid")" 2>/dev/null; do sleep 0.05; done
fi
: >"$DOCS_HOME/server.log"
setsid "$DOCS_BINARY" "$@" --mysql-port "$DOCS_MYSQL" --http-port "$DOCS_HTTP" </dev/null >"$DOCS_HOME/server.log" 2>&1 &
echo $! >"$DOCS_HOME/server.pid"
while ! grep -q "dipper is ready" "$DOCS_HOME/server.log"; do
  if ! kill -0 $! 2>/dev/null; then grep "^dipper: " "$DOCS_HOME/server.log" >&2; exit 1; fi
  sleep 0.05
done
"""

# The client of MySQL or MariaDB, without the options of this machine.
MYSQL = """#!/bin/sh
exec "$(PATH="$DOCS_PATH" command -v mariadb || PATH="$DOCS_PATH" command -v mysql)" --no-defaults "$@"
"""


def write_tools(directory):
    """The programs in front of the path of examples. They are written before any example runs: Linux does not start a file
    that another thread's child has open for writing."""
    for name, text in (("dipper", DIPPER), ("mysql", MYSQL)):
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)


class World:
    """The directory, the ports and the server of one page."""

    def __init__(self, binary, tools, page, directory):
        self.work, self.home = directory / "work", directory / "home"
        self.work.mkdir(parents=True)
        self.home.mkdir()
        shutil.copytree(pages.ROOT / "examples", self.work / "examples")
        self.http, self.mysql = free_port(), free_port()
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "DIPPER_"))}
        self.environment = {
            **clean, "PATH": f"{tools}:{os.environ['PATH']}", "DOCS_PATH": os.environ["PATH"], "HOME": str(self.home),
            "DOCS_BINARY": binary, "DOCS_HOME": str(self.home), "DOCS_HTTP": str(self.http),
            "DOCS_MYSQL": str(self.mysql), "DIPPER_SERVER": f"http://127.0.0.1:{self.http}", "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            # Plans name the number of workers.
            "DIPPER_THREADS": "2",
        }
        # What pages say, and what is there in its place.
        self.names = []
        self.end_fixture = fixtures.prepare(page.name, self)

    def here(self, text):
        """An example with the ports of this page."""
        for said, real in self.names:
            text = text.replace(said, real)
        text = re.sub(r"\b(127\.0\.0\.1|localhost):8030\b", rf"\1:{self.http}", text)
        return re.sub(r"(-P ?|port[= ])9030\b", rf"\g<1>{self.mysql}", text)

    def there(self, text):
        """An output as the page has it."""
        text = text.replace(str(self.work), "/home/ann/dipper")
        for said, real in self.names:
            text = text.replace(real, said)
        return re.sub(rf"\b{self.http}\b", "8030", re.sub(rf"\b{self.mysql}\b", "9030", text))

    def run(self, command):
        ran = subprocess.run(command, cwd=self.work, env=self.environment, stdin=subprocess.DEVNULL, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=EXAMPLE_SECONDS, errors="replace",
                             check=False)
        return ran.returncode, self.there(ran.stdout)

    def example(self, block):
        """The example's exit code and output."""
        if block.language == "sql":
            return self.run(["dipper", "sql", "--data", "dipper-data", "--format", "table", "-q", f"--execute={self.here(block.text)}"])
        asks = re.search(r"127\.0\.0\.1:8030|localhost:8030|\b9030\b|dipper load(?!.*--data)", block.text)
        if asks and not (self.home / "server.pid").exists() and "dipper server" not in block.text:
            code, output = self.run(["dipper", "server", "--data", "dipper-data", "--allow-dir", "."])
            if code != 0:
                return code, output
        return self.run(["bash", "-e", "-o", "pipefail", "-c", self.here(block.text)])

    def end(self):
        pid = self.home / "server.pid"
        if pid.exists():
            process = int(pid.read_text())
            for how in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.kill(process, how)
                    for _ in range(200):
                        os.kill(process, 0)
                        time.sleep(0.05)
                except ProcessLookupError:
                    break
        if self.end_fixture:
            self.end_fixture()


def pattern(expected):
    """What outputs a page's text stands for."""
    parts = []
    for line in expected:
        if line.strip() == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(".*?".join(re.escape(part) for part in line.rstrip().split("...")) + r"[ \t]*\n")
    return re.compile("".join(parts))


def judged(block, code, output):
    """What is wrong with an example, or nothing."""
    lines = [line.rstrip() for line in output.rstrip("\n").split("\n")] if output.strip() else []
    expected = block.output.lines if block.output else []
    fails = any(re.search(r"\bERROR\b|^dipper: ", line) for line in expected)
    if block.output and not pattern(expected).fullmatch("".join(line + "\n" for line in lines)):
        return "another output:\n" + "\n".join(difflib.unified_diff(expected, lines, "page", "dipper", lineterm="")), lines
    if (code != 0) != fails:
        return f"exit code {code}:\n{output}", lines
    return None, lines


def kept(expected, lines):
    """An output with those lines of the page that stand for it: what differs from run to run stays `...`."""
    open_lines = [(line, pattern([line])) for line in expected if "..." in line and line.strip() != "..."]
    return [next((line for line, found in open_lines if found.fullmatch(got + "\n")), got) for got in lines]


def run_page(binary, tools, page, update):
    """The problems of a page's examples; with `update` its outputs are written anew."""
    problems, written = [], {}
    with tempfile.TemporaryDirectory(prefix="dipper-docs-") as directory:
        world = World(binary, tools, page, pathlib.Path(directory))
        try:
            for block in page.blocks:
                if block.file:
                    path = world.work / block.file
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(block.text)
                elif block.language in ("sql", "sh") and block.not_run is None:
                    try:
                        code, output = world.example(block)
                    except subprocess.TimeoutExpired:
                        problems.append(f"{block.place}: not done within {EXAMPLE_SECONDS} s")
                        continue
                    problem, lines = judged(block, code, output)
                    if problem:
                        problems.append(f"{block.place}: {problem}")
                        if block.output:
                            written[block.output.first] = (len(block.output.lines), kept(block.output.lines, lines))
        finally:
            world.end()
    if update and written:
        text = list(page.lines)
        for first in sorted(written, reverse=True):
            count, lines = written[first]
            text[first - 1:first - 1 + count] = lines
        page.path.write_text("\n".join(text) + "\n", encoding="utf-8")
    return problems


def reference(binary, update):
    """The generated pages that are not what the binary writes."""
    problems, kept = [], pages.ROOT / "docs/reference"
    with tempfile.TemporaryDirectory(prefix="dipper-docs-") as directory:
        ran = subprocess.run([binary, "reference", directory], timeout=EXAMPLE_SECONDS, check=False)
        if ran.returncode != 0:
            return [f"dipper reference: exit code {ran.returncode}"]
        written = {path.name: path.read_text(encoding="utf-8") for path in pathlib.Path(directory).iterdir()}
    for name in sorted(written.keys() | {path.name for path in kept.glob("*.md")}):
        path = kept / name
        if name not in written:
            problems.append(f"docs/reference/{name}: dipper reference writes no such page")
        elif not path.exists() or path.read_text(encoding="utf-8") != written[name]:
            problems.append(f"docs/reference/{name} is not what dipper reference writes: run tests/docs/run.py with --update")
            if update:
                kept.mkdir(exist_ok=True)
                path.write_text(written[name], encoding="utf-8")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("pages", nargs="*")
    parser.add_argument("--update", action="store_true")
    arguments = parser.parse_args()
    binary = os.path.abspath(arguments.binary)
    problems = reference(binary, arguments.update)
    all_pages = pages.pages()
    problems += pages.looked_at(all_pages)
    wanted = [page for page in all_pages if pages.is_guide(page)
              and (not arguments.pages or any(name in page.name for name in arguments.pages))]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dipper-docs-") as tools, concurrent.futures.ThreadPoolExecutor(2) as pool:
        write_tools(pathlib.Path(tools))
        for page, found in zip(wanted, pool.map(lambda page: run_page(binary, tools, page, arguments.update), wanted)):
            problems += found
            run = sum(block.language in ("sql", "sh") and not block.not_run and not block.file for block in page.blocks)
            print(f"{'FAIL ' if found else 'ok   '} {page.name} ({run} examples)", flush=True)
    for problem in problems:
        print(problem)
    print(f"{len(wanted)} pages in {time.monotonic() - begun:.1f} s")
    sys.exit(f"{len(problems)} problems" if problems else 0)


if __name__ == "__main__":
    main()
