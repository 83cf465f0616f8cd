"""Servers on loopback with data directories of their own, and the clients that are driven against them."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from engines import free_port  # noqa: E402

PARTS = "ssb_test"


def apt(programs):
    """Installs the packages of programs that are missing, as root."""
    missing = sorted({package for program, package in programs.items() if shutil.which(program, path=path()) is None})
    if not missing:
        return
    subprocess.run([HERE.parents[1] / "tests/support/install.sh", *missing], check=False, stdout=subprocess.DEVNULL)
    still = [program for program in programs if shutil.which(program, path=path()) is None]
    if still:
        raise SystemExit(f"{', '.join(still)} not found; Debian packages: {' '.join(missing)}")


def path():
    return os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin"


class Server:
    """A process that listens on a port."""

    name = ""

    def __init__(self, args, directory):
        self.cores = {int(core) for core in args.cores.split(",")}
        self.directory = Path(directory)
        self.port = free_port()
        self.process = None

    def start(self, command):
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        log = self.directory.with_suffix(".log")
        self.process = subprocess.Popen(
            [str(word) for word in command], stdout=open(log, "w"), stderr=subprocess.STDOUT,
            env=dict(os.environ, PATH=path()), preexec_fn=lambda: os.sched_setaffinity(0, self.cores),
        )  # fmt: skip
        deadline = time.time() + 120
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=5) as probe:
                    # MySQL's greeting; Redis waits for us.
                    if self.name == "Redis" or probe.recv(1):
                        return
            except OSError:
                if self.process.poll() is not None or time.time() > deadline:
                    raise SystemExit(f"{self.name} did not start; see {log}") from None
                time.sleep(0.1)

    def close(self):
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def rss_kib(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])

    def sql(self, text, database=""):
        """Runs statements with the mariadb client; the rows' fields as text."""
        command = ["mariadb", "-h127.0.0.1", f"-P{self.port}", "-uroot", "--skip-ssl", "-N", "-B", "--local-infile=1", database]
        done = subprocess.run([word for word in command if word], input=text, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{self.name}: {done.stderr.strip()[:500]}: {text[:200]}")
        return [line.split("\t") for line in done.stdout.splitlines()]


class Dipper(Server):
    name = "dipper"

    def __init__(self, args, directory, more=()):
        super().__init__(args, directory)
        shutil.rmtree(directory, ignore_errors=True)
        self.http = free_port()
        self.start([args.dipper, "server", "--data", directory, "--mysql-port", self.port, "--http-port", self.http,
                    "--max-connections", 12_000, *more,
                    *args.server_args.split()])  # fmt: skip

    def load_parts(self, file, table="row_part", row_store=True):
        ddl = (HERE / "row_part.sql").read_text().replace("`row_part`", f"`{table}`")
        if not row_store:
            ddl = ddl.replace('"store_row_column" = "true"', '"store_row_column" = "false"')
        self.sql(f"CREATE DATABASE IF NOT EXISTS {PARTS}; DROP TABLE IF EXISTS {PARTS}.{table}")
        self.sql(ddl, PARTS)
        url = f"http://127.0.0.1:{self.http}/api/{PARTS}/{table}/_stream_load"
        command = ["curl", "-sS", "--location-trusted", "-u", "root:", "-H", "Expect: 100-continue", "-H", "column_separator: |",
                   "-T", file, url]  # fmt: skip
        answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        if answer["Status"] != "Success":
            raise SystemExit(f"Stream Load: {answer}")


class Bare(Server):
    """The protocol layer alone."""

    name = "bare"

    def __init__(self, args, file, sbtest):
        super().__init__(args, args.data / "point-bare")
        self.start([args.point, "serve", "--address", f"127.0.0.1:{self.port}", "--rows", file, "--sbtest", sbtest])


class MariaDB(Server):
    name = "MariaDB"

    def __init__(self, args, directory, buffer_gib):
        super().__init__(args, directory)
        shutil.rmtree(directory, ignore_errors=True)
        Path(directory).mkdir(parents=True)
        tmp = Path("/tmp") / f"dipper-mariadb-{self.port}.sock"
        install = ["mariadb-install-db", "--no-defaults", f"--datadir={directory}", "--auth-root-authentication-method=normal",
                   "--skip-test-db", "--user=root"]  # fmt: skip
        done = subprocess.run(install, capture_output=True, text=True, env=dict(os.environ, PATH=path()))
        if done.returncode:
            raise SystemExit(f"mariadb-install-db: {done.stdout[-1000:]}{done.stderr[-1000:]}")
        self.start([
            shutil.which("mariadbd", path=path()), "--no-defaults", f"--datadir={directory}", f"--port={self.port}", f"--socket={tmp}",
            "--bind-address=127.0.0.1", "--user=root", "--max-connections=12000", "--back-log=4096", "--local-infile=1",
            f"--innodb-buffer-pool-size={buffer_gib}G", "--innodb-log-file-size=1G", "--skip-name-resolve", "--open-files-limit=30000",
        ])  # fmt: skip

    def load_parts(self, file):
        ddl = re.sub(r"\) ENGINE=OLAP.*", ") ENGINE=InnoDB;", (HERE / "row_part.sql").read_text(), flags=re.S)
        # InnoDB clusters rows by the primary key, whose columns are not null.
        ddl = re.sub(r"(`p_partkey` int\(11\)|`p_name` varchar\(69\)) NULL", r"\1 NOT NULL", ddl)
        ddl = ddl.replace("`p_container` varchar(33) NULL", "`p_container` varchar(33) NULL, PRIMARY KEY (p_partkey, p_name)")
        self.sql(f"CREATE DATABASE {PARTS} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
        self.sql(ddl, PARTS)
        self.sql(f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE row_part FIELDS TERMINATED BY '|'; ANALYZE TABLE row_part", PARTS)


class Redis(Server):
    name = "Redis"

    def __init__(self, args, directory, rows, value_bytes=90):
        super().__init__(args, directory)
        self.start(["redis-server", "--port", self.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        pipe = subprocess.Popen(["redis-cli", "-p", str(self.port), "--pipe"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        value = b"x" * value_bytes
        for start in range(0, rows, 10_000):
            pipe.stdin.write(b"".join(
                b"*3\r\n$3\r\nSET\r\n$16\r\nkey:%012d\r\n$%d\r\n%s\r\n" % (key, value_bytes, value)
                for key in range(start, min(start + 10_000, rows))
            ))  # fmt: skip
        pipe.stdin.close()
        if pipe.wait():
            raise SystemExit("redis-cli --pipe failed")

    def get(self, connections, seconds, rows):
        """GETs a second of redis-benchmark with uniform keys."""

        def run(requests):
            command = ["redis-benchmark", "-p", str(self.port), "-t", "get", "-c", str(connections), "-r", str(rows),
                       "-n", str(requests), "--csv"]  # fmt: skip
            done = subprocess.run(command, check=True, capture_output=True, text=True,
                                  preexec_fn=lambda: os.sched_setaffinity(0, self.cores))  # fmt: skip
            fields = [line.split('","') for line in done.stdout.splitlines() if line.startswith('"GET"')][-1]
            # rps, then avg, min, p50, p95, p99, max in milliseconds.
            return {"qps": float(fields[1].strip('"')), "p99_us": float(fields[6].strip('"')) * 1000}

        return run(int(run(50_000)["qps"] * seconds))


def lean(args, server, file, **options):
    """One run of dipper-point; its figures. `mixed` writes beside the reads."""
    what = "mixed" if options.pop("mixed", False) else "read"
    database = options.pop("database", PARTS)
    command = [args.point, what, "--address", f"127.0.0.1:{server.port}", "--database", database, "--rows", file]
    for name, value in options.items():
        if value is not None:
            command += [f"--{name.replace('_', '-')}", str(value)]
    cores = server.cores
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=lambda: os.sched_setaffinity(0, cores))
    if done.returncode == 2 or not done.stdout:
        raise RuntimeError(f"{server.name}: {done.stderr.strip()[:500]}")
    reply = json.loads(done.stdout)
    if done.returncode:
        print(f"{server.name}: {done.stderr.strip()[:1000]}", file=sys.stderr)
    return reply


def sysbench(args, server, script, threads, seconds, *options, database="sbtest", check=True):
    """One run of sysbench; queries a second and p99 in microseconds."""
    command = [
        "sysbench", script, "--db-driver=mysql", "--mysql-host=127.0.0.1", f"--mysql-port={server.port}", "--mysql-user=root",
        f"--mysql-db={database}", f"--threads={threads}", f"--time={seconds}", "--percentile=99", "--rand-type=uniform", *options,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=lambda: os.sched_setaffinity(0, server.cores))
    if done.returncode:
        raise RuntimeError(f"{server.name}: sysbench: {(done.stdout + done.stderr)[-800:]}")
    if not check:
        return None
    rate = re.search(r"(?:queries|transactions):\s+\d+\s+\(([\d.]+) per sec", done.stdout)
    p99 = re.search(r"99th percentile:\s+([\d.]+)", done.stdout)
    return {"qps": float(rate[1]), "p99_us": float(p99[1]) * 1000}
