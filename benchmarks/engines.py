"""Engines that tables are loaded into and that are asked: dipper's server, and the peers in processes of their own.

As a program: one peer, requests as JSON lines on stdin, answers on stdout."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import suites  # noqa: E402


def enter_venv(directory):
    """Goes on inside the Python environment with the peers; makes it where it is missing."""
    python = directory / "bin" / "python"
    if Path(sys.prefix).resolve() == directory.resolve():
        return
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", directory], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", HERE / "requirements.txt"], check=True)
    os.execv(python, [str(python), *sys.argv])


def add_arguments(parser):
    parser.add_argument("--dipper", help="the dipper binary; without it only the peers are measured")
    parser.add_argument("--gen", required=True, help="the dipper-gen binary")
    parser.add_argument("--data", type=Path, default=HERE.parent / "target" / "bench", help="where files are kept")
    parser.add_argument("--venv", type=Path, default=HERE.parent / "target" / "bench" / "venv",
                        help="Python environment with the peers; made from requirements.txt where it is missing")  # fmt: skip
    parser.add_argument("--cores", default="0,1", help="cores that engines and clients are bound to")
    parser.add_argument("--peers", default="duckdb,clickhouse", help="peers to measure")
    parser.add_argument("--buckets", type=int, default=1, help="buckets of dipper's tables")
    parser.add_argument("--server-env", action="append", default=[], metavar="NAME=VALUE",
                        help="environment of dipper's server, as to switch huge pages on")  # fmt: skip
    parser.add_argument("--server-args", default="", help="more arguments for dipper's server, divided by blanks")


def cores_of(args):
    return {int(core) for core in args.cores.split(",")}


def generate(args, path, *command):
    """Makes a data file that is missing, and reads it, so that it is in the page cache."""
    if not path.exists():
        print(f"generating {path}", file=sys.stderr)
        subprocess.run([args.gen, *map(str, command)], check=True, stdout=subprocess.DEVNULL)
    for file in [path] if path.is_file() else path.iterdir():
        with open(file, "rb") as handle:
            while handle.read(1 << 24):
                pass
    return path


SPREAD_SEED = 7


def hits_file(args, size, spread=False):
    path = args.data / f"hits-{size}{'-spread' if spread else ''}.tsv"
    more = ["--spread", "--seed", SPREAD_SEED] if spread else []
    return generate(args, path, "hits", "--bytes", size, "--out", path, *more)


def ssb_files(args, scale, spread=False):
    path = args.data / f"ssb-{scale:g}{'-spread' if spread else ''}"
    return generate(args, path, "ssb", "--scale", scale, "--out", path, *(["--seed", SPREAD_SEED] if spread else []))


def tpch_files(args, scale):
    path = args.data / f"tpch-{scale:g}"
    return generate(args, path, "tpch", "--scale", scale, "--out", path)


def uniform_file(args, rows):
    path = args.data / f"uniform-{rows}.tbl"
    return generate(args, path, "uniform", "--rows", rows, "--out", path)


def views_file(args, size):
    path = args.data / f"hive-{size}"
    return generate(args, path, "hive", "--bytes", size, "--out", path) / "000000_0"


def machine(args):
    names = (l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name"))
    model = next(names, os.uname().machine)
    return f"{len(cores_of(args))} cores ({model}), {time.strftime('%Y-%m-%d', time.gmtime())}"


class Usage:
    """What a process used while something ran: CPU seconds, page faults, peak memory."""

    def __init__(self, pid):
        self.pid = pid
        # Forgets the peak so far; only the owner and root may.
        with open(f"/proc/{pid}/clear_refs", "w") as file:
            file.write("5")
        self.start = self.read()

    def read(self):
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        ticks = os.sysconf("SC_CLK_TCK")
        return {"minflt": int(fields[7]), "majflt": int(fields[9]), "cpu": (int(fields[11]) + int(fields[12])) / ticks}

    def stop(self):
        used = {name: value - self.start[name] for name, value in self.read().items()}
        status = Path(f"/proc/{self.pid}/status").read_text()
        used["peak_kib"] = int(next(l for l in status.splitlines() if l.startswith("VmHWM")).split()[1])
        return used


class Allocations:
    """Counts the calls of dipper's allocator while something runs, by uprobes: takes root, perf, nm and readelf. A call
    counted costs a microsecond or two, so nothing is timed meanwhile."""

    EVENTS = Path("/sys/kernel/tracing/uprobe_events")
    SYMBOLS = ["mi_malloc_aligned", "mi_zalloc_aligned", "mi_realloc_aligned"]

    def __init__(self, binary, pid):
        binary = Path(binary).resolve()
        tool = lambda *command: subprocess.run([*command, binary], check=True, capture_output=True, text=True).stdout
        addresses = {line.split()[2]: int(line.split()[0], 16) for line in tool("nm").splitlines() if len(line.split()) == 3}
        loads = [line.split() for line in tool("readelf", "-lW").splitlines() if line.split()[:1] == ["LOAD"]]
        self.probes = []
        for symbol in self.SYMBOLS:
            address = addresses[symbol]
            offset = next(
                address - int(load[2], 16) + int(load[1], 16)
                for load in loads if int(load[2], 16) <= address < int(load[2], 16) + int(load[4], 16)
            )  # fmt: skip
            self.write(f"p:dipper_bench/{symbol} {binary}:{offset:#x}")
            self.probes.append(symbol)
        events = ",".join(f"dipper_bench:{symbol}" for symbol in self.probes)
        self.perf = subprocess.Popen(["perf", "stat", "-x,", "-e", events, "-p", str(pid)], stderr=subprocess.PIPE, text=True)
        time.sleep(0.5)

    def write(self, line):
        # Python's append mode seeks, which this file refuses; truncating it would remove the probes of others.
        events = os.open(self.EVENTS, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(events, f"{line}\n".encode())
        finally:
            os.close(events)

    def stop(self):
        """Calls of each function."""
        self.perf.send_signal(signal.SIGINT)
        lines = self.perf.stderr.read().splitlines()
        self.perf.wait()
        for symbol in self.probes:
            self.write(f"-:dipper_bench/{symbol}")
        return {line.split(",")[2].partition(":")[2]: int(line.split(",")[0]) for line in lines if "dipper_bench:" in line}


class Peer:
    """A peer in a process of its own, bound to the cores."""

    def __init__(self, name, args, directory):
        self.name = name
        cores = cores_of(args)
        shutil.rmtree(directory, ignore_errors=True)
        self.process = subprocess.Popen(
            [sys.executable, __file__, name, str(directory), str(len(cores))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )  # fmt: skip

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        reply = json.loads(line) if line else {"error": "the process ended"}
        if "error" in reply:
            raise RuntimeError(f"{self.name}: {reply['error']}")
        return reply

    def load(self, suite, name, path, form, **options):
        """Creates the table anew and loads the file: seconds, size, CPU, page faults, peak memory."""
        return self.ask(do="load", suite=suite, table=name, path=str(path), form=form, options=options)

    def query(self, sql):
        """Seconds and rows."""
        return self.ask(do="query", sql=sql)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Dipper:
    """dipper's server on free ports of the loopback address."""

    name = "dipper"

    def __init__(self, args, directory):
        import pymysql

        self.cores, self.directory = cores_of(args), directory
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        self.mysql_port, self.http_port = free_port(), free_port()
        command = [args.dipper, "server", "--data", str(directory), "--mysql-port", str(self.mysql_port),
                   "--http-port", str(self.http_port), *args.server_args.split()]  # fmt: skip
        self.process = subprocess.Popen(
            command, env=dict(os.environ, **dict(pair.split("=", 1) for pair in args.server_env)),
            stdout=subprocess.DEVNULL, stderr=open(directory.with_suffix(".log"), "w"),
            preexec_fn=lambda: os.sched_setaffinity(0, self.cores),
        )  # fmt: skip
        deadline = time.time() + 30
        while True:
            try:
                self.connection = self.connect(None)
                break
            except pymysql.err.OperationalError:
                if self.process.poll() is not None or time.time() > deadline:
                    raise SystemExit(f"dipper's server did not start; see {directory.with_suffix('.log')}")
                time.sleep(0.05)
        self.sql("CREATE DATABASE IF NOT EXISTS bench")
        self.connection.select_db("bench")

    def connect(self, database="bench"):
        import pymysql

        return pymysql.connect(host="127.0.0.1", port=self.mysql_port, user="root", database=database, autocommit=True)

    def sql(self, text):
        with self.connection.cursor() as cursor:
            cursor.execute(text)
            return [list(row) for row in cursor.fetchall()]

    def columns(self, text):
        """Rows as dictionaries, for SHOW statements."""
        with self.connection.cursor() as cursor:
            cursor.execute(text)
            return [dict(zip([d[0] for d in cursor.description], row)) for row in cursor.fetchall()]

    def query(self, sql):
        start = time.perf_counter()
        rows = self.sql(sql)
        return {"seconds": time.perf_counter() - start, "rows": rows}

    def stream_load(self, table, name, path, form, **headers):
        """Loads a file with curl; as `Peer.load`, and the client's CPU seconds."""
        headers = {"Expect": "100-continue", **suites.stream_load_headers(table, form), **headers}
        command = ["curl", "-sS", "--location-trusted", "-u", "root:", "-T", str(path)]
        command += [part for key, value in headers.items() for part in ("-H", f"{key}: {value}")]
        command.append(f"http://127.0.0.1:{self.http_port}/api/bench/{name}/_stream_load")
        usage = Usage(self.process.pid)
        start = time.perf_counter()
        client = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  preexec_fn=lambda: os.sched_setaffinity(0, self.cores))  # fmt: skip
        out, errors = client.stdout.read(), client.stderr.read()
        _, status, used = os.wait4(client.pid, 0)
        client.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - start
        try:
            answer = json.loads(out)
        except ValueError:
            raise RuntimeError(f"dipper: no Stream Load answer: {out[:300]!r} {errors[:300]!r}") from None
        if answer.get("Status") != "Success":
            raise RuntimeError(f"dipper: Stream Load into {name}: {answer}")
        return {"seconds": seconds, "size": self.size(name), "rows": answer["NumberLoadedRows"],
                "client_cpu": used.ru_utime + used.ru_stime, "answer": answer, **usage.stop()}  # fmt: skip

    def load(self, suite, name, path, form, buckets=None, unique=False, only=None, again=False, spread=False):
        """Creates the table anew (not with `again`) and loads the file."""
        table = table_of(suite, name, only, spread)
        if not again:
            self.sql(f"DROP TABLE IF EXISTS {name}")
            self.sql(table.ddl(buckets, unique=unique))
        return self.stream_load(table, name, path, form)

    def size(self, name):
        """Bytes of the table's live objects, as ClickHouse's of its active parts: what a merge has replaced stays on
        disk for a while, there and here."""
        return int(self.sql("SELECT data_length + index_length FROM information_schema.tables "
                            f"WHERE table_schema = 'bench' AND table_name = '{name}'")[0][0])  # fmt: skip

    def drop(self, name):
        self.sql(f"DROP TABLE IF EXISTS {name}")

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def table_of(suite, name, only=None, spread=False):
    table = suites.suite(suite)[0][name]
    table = table.spread() if spread else table
    return table.only(only) if only else table


class DuckDB:
    def __init__(self, directory, threads):
        import duckdb

        self.duckdb, self.threads, self.directory = duckdb, threads, directory
        self.files = {}
        self.connection = None

    def load(self, suite, name, path, form, only=None, spread=False, ordered=False):
        """Into a file of its own; the time ends when it is checkpointed. `ordered`: by the key that the table has in
        the other engines."""
        table = table_of(suite, name, only, spread)
        order = f" ORDER BY {', '.join(table.key)}" if ordered else ""
        file = self.directory / f"{suite}.duckdb"
        self.connection = self.connection or self.duckdb.connect(str(file), config={"threads": self.threads})
        self.connection.execute(f"DROP TABLE IF EXISTS {name}")
        self.connection.execute("CHECKPOINT")
        before = self.used()
        start = time.perf_counter()
        self.connection.execute(suites.duckdb_ddl(table))
        self.connection.execute(f"INSERT INTO {name} {suites.duckdb_source(table, path, form)}{order}")
        self.connection.execute("CHECKPOINT")
        seconds = time.perf_counter() - start
        rows = self.connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
        return {"seconds": seconds, "size": self.used() - before, "rows": rows}

    def used(self):
        """Bytes of blocks in use."""
        size, used = self.connection.execute("SELECT block_size, used_blocks FROM pragma_database_size()").fetchone()
        return size * used

    def query(self, sql):
        start = time.perf_counter()
        rows = self.connection.execute(sql).fetchall()
        return {"seconds": time.perf_counter() - start, "rows": [[plain(value) for value in row] for row in rows]}


class ClickHouse:
    def __init__(self, directory, threads):
        from chdb import session

        self.session = session.Session(str(directory))
        self.threads = threads
        self.session.query("CREATE DATABASE IF NOT EXISTS bench ENGINE = Atomic; USE bench")

    def run(self, sql, form="JSONCompactEachRow"):
        return self.session.query(f"{sql} SETTINGS max_threads={self.threads}, max_insert_threads={self.threads}", form)

    def load(self, suite, name, path, form, only=None, codec="", fsync=False, spread=False):
        table = table_of(suite, name, only, spread)
        self.session.query(f"DROP TABLE IF EXISTS bench.{name} SYNC")
        source, reading = suites.clickhouse_source(table, path, form)
        start = time.perf_counter()
        self.session.query(suites.clickhouse_ddl(table, "fsync_after_insert=1" if fsync else "", codec))
        names = ", ".join(f"`{c.name}`" for c in table.columns)
        self.session.query(
            f"INSERT INTO {name} ({names}) {source} SETTINGS max_threads={self.threads}, "
            f"max_insert_threads={self.threads}, date_time_input_format='basic'{reading}"
        )
        seconds = time.perf_counter() - start
        parts = f"SELECT sum(bytes_on_disk), sum(rows) FROM system.parts WHERE active AND table = '{name}'"
        size, rows = json.loads(self.session.query(parts, "JSONCompactEachRow").data())
        return {"seconds": seconds, "size": int(size), "rows": int(rows)}

    def query(self, sql):
        start = time.perf_counter()
        answer = self.run(suites.clickhouse_query(sql)).data()
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "rows": [json.loads(line) for line in answer.splitlines()]}


def plain(value):
    """A value that JSON can carry; whole numbers beyond 64 bits too."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return float(value) if type(value).__name__ == "Decimal" else str(value)


def serve(name, directory, threads):
    # Answers go where only they go: engines write to stdout too.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    directory.mkdir(parents=True, exist_ok=True)
    engine = {"duckdb": DuckDB, "clickhouse": ClickHouse}[name](directory, threads)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            usage = Usage(os.getpid())
            if request["do"] == "load":
                options = request["options"]
                reply = engine.load(request["suite"], request["table"], request["path"], request["form"], **options)
            else:
                reply = engine.query(request["sql"])
            reply.update(usage.stop())
        except Exception as error:  # the engines' own exceptions have no common base
            reply = {"error": f"{type(error).__name__}: {error}"[:800]}
        out.write(json.dumps(reply) + "\n")
        out.flush()


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
