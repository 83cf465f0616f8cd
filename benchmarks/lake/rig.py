"""The rig: a real S3 server behind `lake-proxy`, and dipper servers on it."""

import json
import os
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pymysql

KEYS = {"AWS_ACCESS_KEY_ID": "lake", "AWS_SECRET_ACCESS_KEY": "lakelake", "AWS_REGION": "us-east-1"}
BUCKET = "lake"


def wait_for(port, seconds=60):
    end = time.time() + seconds
    while time.time() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise SystemExit(f"nothing listens on port {port} after {seconds} s")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def pinned(cpus, command):
    return ["taskset", "-c", cpus, *command] if cpus else command


def busy(cpus, seconds=1.0):
    """The share of these CPUs (all, if none are named) that is taken now."""
    wanted = {f"cpu{n}" for n in expanded(cpus)} if cpus else {"cpu"}

    def ticks():
        lines = [line.split() for line in Path("/proc/stat").read_text().splitlines() if line.startswith("cpu")]
        values = [list(map(int, rest[:8])) for name, *rest in lines if name in wanted]
        return sum(map(sum, values)), sum(v[3] + v[4] for v in values)  # all, idle and waiting for disks

    all_before, idle_before = ticks()
    time.sleep(seconds)
    all_after, idle_after = ticks()
    return 1 - (idle_after - idle_before) / max(all_after - all_before, 1)


def expanded(cpus):
    """`0,2-3` as numbers."""
    for part in cpus.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


class Rig:
    def __init__(self, args):
        self.args = args
        self.dir = Path(args.dir).resolve()
        self.s3_dir = self.dir / "s3"
        (self.s3_dir / BUCKET).mkdir(parents=True, exist_ok=True)
        self.environment = dict(os.environ, **KEYS)
        self.gateway_port, self.port, self.control = free_port(), free_port(), free_port()
        gateway = [args.versitygw, "--access", KEYS["AWS_ACCESS_KEY_ID"], "--secret", KEYS["AWS_SECRET_ACCESS_KEY"],
                   "--port", f"127.0.0.1:{self.gateway_port}", "--quiet", "posix", str(self.s3_dir)]  # fmt: skip
        proxy = [args.proxy, "--listen", f"127.0.0.1:{self.port}", "--control", f"127.0.0.1:{self.control}",
                 "--to", f"127.0.0.1:{self.gateway_port}"]  # fmt: skip
        gateway, proxy = (pinned(args.rig_cpus, command) for command in (gateway, proxy))
        # With Go's default a third of the gateway's CPU, which dipper and the peer lack, goes into collecting 50 MB of garbage.
        relaxed = dict(os.environ, GOGC="off", GOMEMLIMIT="1GiB")
        self.processes = [subprocess.Popen(gateway, env=relaxed, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)]
        wait_for(self.gateway_port)
        self.processes.append(subprocess.Popen(proxy, stdout=subprocess.DEVNULL))
        wait_for(self.port)

    def ask(self, path, method="POST"):
        request = urllib.request.Request(f"http://127.0.0.1:{self.control}/{path}", method=method)
        return json.load(urllib.request.urlopen(request))

    def put(self, directory, prefix):
        """Puts files below `bucket/prefix` as clients of S3 do: a file that is only laid there has no ETag, and no cache keeps it."""
        from pyarrow import fs

        store = fs.S3FileSystem(
            access_key=KEYS["AWS_ACCESS_KEY_ID"], secret_key=KEYS["AWS_SECRET_ACCESS_KEY"], region=KEYS["AWS_REGION"],
            scheme="http", endpoint_override=f"127.0.0.1:{self.gateway_port}")  # fmt: skip
        fs.copy_files(str(directory), prefix, destination_filesystem=store)

    def stop(self):
        for process in self.processes:
            process.terminate()
            process.wait()


class Server:
    """A dipper server of its own."""

    def __init__(self, rig, data, cache_dir, *more):
        self.mysql, self.http = free_port(), free_port()
        command = [rig.args.dipper, "server", "--data", data, "--mysql-port", str(self.mysql), "--http-port", str(self.http)]
        if data.startswith("s3://"):
            command += ["--s3-endpoint", f"http://127.0.0.1:{rig.port}", "--cache-dir", str(cache_dir)]
        command += more
        self.log = open(rig.dir / "dipper.log", "ab")
        self.process = subprocess.Popen(pinned(rig.args.cpus, command), env=rig.environment, stdout=self.log, stderr=self.log)
        wait_for(self.mysql)
        self.connection = pymysql.connect(host="127.0.0.1", port=self.mysql, user="root", autocommit=True)

    def rows(self, sql):
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall()

    def waited(self):
        """Seconds that a query thread was ready to run while others ran on its CPU, on average."""
        total, threads = 0, 0
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            try:
                if (task / "comm").read_text().strip() == "query":
                    total += int((task / "schedstat").read_text().split()[1])
                    threads += 1
            except FileNotFoundError:
                pass  # A thread that has just ended.
        return total / 1e9 / max(threads, 1)

    def cpu(self):
        """CPU seconds that the process has taken."""
        after_name = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")

    def settle(self, seconds, limit=1800):
        """Waits until the server has done nothing for so long: no merge is running or due. Gives the seconds waited."""
        began = time.time()
        while time.time() < began + limit:
            before = self.cpu()
            time.sleep(seconds)
            if self.cpu() - before < 0.02 * seconds:
                return time.time() - began
        raise SystemExit(f"the server still works after {limit} s")

    def load(self, table, source, *headers):
        """Stream Load by curl: a file, or bytes. Gives the answer's JSON."""
        command = ["curl", "-sS", "--location-trusted", "-u", "root:", "-H", "Expect:"]
        for header in headers:
            command += ["-H", header]
        # From its input `-T` would send a body of unknown length.
        command += ["-X", "PUT", "--data-binary", "@-"] if isinstance(source, bytes) else ["-T", str(source)]
        command.append(f"http://127.0.0.1:{self.http}/api/{table.replace('.', '/')}/_stream_load")
        given = source if isinstance(source, bytes) else None
        answer = json.loads(subprocess.run(command, input=given, check=True, stdout=subprocess.PIPE).stdout)
        if answer["Status"] != "Success":
            raise SystemExit(f"{table}: {answer}")
        return answer

    def stop(self):
        self.connection.close()
        self.process.terminate()
        self.process.wait()
        self.log.close()
