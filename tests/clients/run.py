#!/usr/bin/env python3
"""Runs the client programs of this directory against a dipper server; see README.md."""

import argparse
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from server import Server  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = pathlib.Path(os.environ.get("DIPPER_TEST_CACHE", "~/.cache/dipper/tests")).expanduser()
INSTALL_SECONDS = 900
CLIENT_SECONDS = 120


class Missing(Exception):
    """A client cannot be installed."""


def run(command, **options):
    """Runs a step of an installation; its output is shown only if it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=INSTALL_SECONDS,
        **options,
    )
    if done.returncode != 0:
        raise Missing(f"{' '.join(map(str, command))} failed:\n{done.stdout[-2000:]}")
    return done.stdout


def need(program, *packages):
    """A program on PATH, installed by apt if that is possible."""
    if shutil.which(program) is None:
        apt(*packages)
    if shutil.which(program) is None:
        raise Missing(f"{program} is not installed (Debian: {' '.join(packages)})")


def apt(*packages):
    run([ROOT / "tests/support/install.sh", *packages])


def stamped(directory, *sources):
    """Whether `directory` was installed from these files as they are now; if not, it is emptied."""
    wanted = "".join(source.read_text() for source in sources)
    stamp = directory / "installed"
    if stamp.exists() and stamp.read_text() == wanted:
        return True
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return False


def stamp(directory, *sources):
    (directory / "installed").write_text("".join(source.read_text() for source in sources))


def python_client(name):
    directory = CACHE / "python"
    requirements = HERE / "python" / "requirements.txt"
    if not stamped(directory, requirements):
        need("gcc", "gcc")
        need("pkg-config", "pkg-config")
        if subprocess.run(["pkg-config", "--exists", "libmariadb"], check=False).returncode != 0:
            apt("libmariadb-dev", "python3-dev")
        run([sys.executable, "-m", "venv", directory / "venv"])
        run([directory / "venv/bin/pip", "install", "-q", "-r", requirements])
        stamp(directory, requirements)
    return [directory / "venv/bin/python", HERE / "python" / f"{name}_client.py"]


def mariadb_cli():
    need("mariadb", "mariadb-client")
    return [sys.executable, HERE / "python" / "cli_client.py"]


def node_client():
    need("npm", "nodejs", "npm")
    directory = CACHE / "node"
    sources = [HERE / "node" / "package.json"]
    if not stamped(directory, *sources):
        shutil.copy(sources[0], directory)
        run(["npm", "install", "--no-fund", "--no-audit"], cwd=directory)
        stamp(directory, *sources)
    # Modules are looked for beside the program.
    shutil.copy(HERE / "node" / "client.js", directory)
    return ["node", directory / "client.js"]


def java_client(program="Client"):
    need("java", "openjdk-17-jdk-headless")
    need("mvn", "maven")
    directory = CACHE / "java"
    sources = [HERE / "java" / "pom.xml"]
    if not stamped(directory, *sources):
        run(["mvn", "-q", "-B", "-f", sources[0], "dependency:copy-dependencies", f"-DoutputDirectory={directory}/lib"])
        stamp(directory, *sources)
    return ["java", "-cp", f"{directory}/lib/*", HERE / "java" / f"{program}.java"]


def go_client():
    need("go", "golang-go")
    directory = CACHE / "go"
    directory.mkdir(parents=True, exist_ok=True)
    binary = directory / "client"
    environment = dict(os.environ, GOFLAGS="-mod=readonly", GOTOOLCHAIN="local", CGO_ENABLED="0")
    run(["go", "build", "-o", binary, "."], cwd=HERE / "go", env=environment)
    return [binary]


def php_client():
    if shutil.which("php") is None or "mysqli" not in run(["php", "-m"]):
        apt("php-cli", "php-mysql")
    need("php", "php-cli", "php-mysql")
    return ["php", HERE / "php" / "client.php"]


def sqlx_client():
    # A workspace of its own: sqlx would change the features of what dipper is built from.
    if shutil.which("cargo") is None:
        raise Missing("cargo is not installed")
    target = CACHE / "sqlx"
    environment = dict(os.environ, CARGO_TARGET_DIR=str(target))
    run(["cargo", "build", "--locked"], cwd=HERE / "sqlx", env=environment)
    return [target / "debug" / "dipper-client-test"]


CLIENTS = {
    "mariadb": mariadb_cli,
    "pymysql": lambda: python_client("pymysql"),
    "mysqlclient": lambda: python_client("mysqlclient"),
    "connector-python": lambda: python_client("connector"),
    "sqlalchemy": lambda: python_client("sqlalchemy"),
    "accounts": lambda: python_client("accounts"),
    "connector-j": java_client,
    "dbeaver": lambda: java_client("Dbeaver"),
    "mysql2": node_client,
    "go": go_client,
    "php": php_client,
    "sqlx": sqlx_client,
}


@contextlib.contextmanager
def server(binary):
    """A server of its own on loopback, ended and removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="dipper-clients-") as directory, Server(binary, directory) as made:
        yield made
        if not made.is_running():
            raise SystemExit(f"the server ended by itself:\n{made.said()}")


def default_server():
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "release" / "dipper"


def test(name, host, port, tls):
    """Runs one client; the numbers of checks passed and failed."""
    try:
        command = CLIENTS[name]()
    except (Missing, subprocess.TimeoutExpired) as error:
        print(f"{name}: FAIL install: {error}")
        return 0, 1
    # Each client makes its own table to look rows up in.
    database = f"clients_{name.replace('-', '_')}"
    lookup = (HERE / "lookup.sql").read_text(encoding="utf-8").replace("{database}", database)
    environment = dict(
        os.environ,
        DIPPER_LOOKUP_SQL=lookup,
        DIPPER_LOOKUP_TABLE=f"{database}.lookup",
        DIPPER_HOST=host,
        DIPPER_PORT=str(port),
        DIPPER_TYPES_SQL=(HERE / "types.sql").read_text(encoding="utf-8").strip(),
        DIPPER_TLS="1" if tls else "0",
        PYTHONDONTWRITEBYTECODE="1",
        PYTHONUTF8="1",
    )
    try:
        done = subprocess.run(
            [str(word) for word in command],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=CLIENT_SECONDS,
            check=False,
        )
        output, code = done.stdout, done.returncode
    except subprocess.TimeoutExpired as error:
        output, code = (error.stdout or b"").decode("utf-8", "replace"), f"stopped after {CLIENT_SECONDS} s"
    lines = output.splitlines()
    passed = sum(line.startswith("ok ") for line in lines)
    failed = sum(line.startswith("FAIL ") for line in lines)
    if failed == 0 and (code != 0 or passed == 0):
        # It broke off outside of a check.
        failed = 1
        print(f"{name}: FAIL exit {code}:\n{output[-3000:]}")
    for line in lines:
        if line.startswith(("ok ", "FAIL ")):
            print(f"{name}: {line}")
    return passed, failed


def main():
    parser = argparse.ArgumentParser(description="Real MySQL clients against a dipper server.")
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"which ones: {', '.join(CLIENTS)} (default all)")
    parser.add_argument("--server", type=pathlib.Path, default=default_server(), help="dipper binary (default %(default)s)")
    parser.add_argument("--address", help="host:port of a server that runs already; root has no password there")
    parser.add_argument("--tls", action="store_true", help="check TLS too; the server has to offer it")
    arguments = parser.parse_args()
    names = arguments.clients or list(CLIENTS)
    unknown = [name for name in names if name not in CLIENTS]
    if unknown:
        parser.error(f"no such client: {', '.join(unknown)}; there are {', '.join(CLIENTS)}")
    passed = failed = 0
    with contextlib.ExitStack() as stack:
        if arguments.address:
            host, _, port = arguments.address.rpartition(":")
        else:
            host, port = "127.0.0.1", stack.enter_context(server(arguments.server)).mysql
        for name in names:
            good, bad = test(name, host, port, arguments.tls)
            passed += good
            failed += bad
            sys.stdout.flush()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
