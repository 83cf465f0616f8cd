"""Starts real servers for the tests of external catalogs, on loopback and free ports, and stops them again."""

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from server import Server, free_port  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("DIPPER_TEST_CACHE", "~/.cache/dipper/tests")).expanduser()
GATEWAY = pathlib.Path("~/.cache/dipper/bin/versitygw").expanduser()
S3_KEY, S3_SECRET = "dipper", "dipper-secret"
START_SECONDS = 120
INSTALL_SECONDS = 1800


def need(program, package):
    """A program on PATH, installed by apt where that is possible."""
    if shutil.which(program) is None:
        subprocess.run([HERE.parent / "support/install.sh", package], check=True, stdout=subprocess.DEVNULL)
    if shutil.which(program) is None:
        sys.exit(f"{program} is not installed (Debian: {package})")


def stamped(directory, source):
    """Whether `directory` was installed from this file as it is now; if not, it is emptied."""
    stamp = directory / "installed"
    if stamp.exists() and stamp.read_text() == source.read_text():
        return True
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return False


def jars(name):
    """The jars of a pom, in a class path."""
    need("java", "openjdk-17-jdk-headless")
    need("mvn", "maven")
    directory, pom = CACHE / name, HERE / name / "pom.xml"
    if not stamped(directory, pom):
        command = ["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", "-DincludeScope=runtime"]
        subprocess.run([*command, f"-DoutputDirectory={directory}/lib"], check=True, timeout=INSTALL_SECONDS)
        (directory / "installed").write_text(pom.read_text())
    return f"{directory}/lib/*"


def site(directory, name, properties):
    """A configuration file in Hadoop's form."""
    lines = [f"<property><name>{k}</name><value>{v}</value></property>" for k, v in properties.items()]
    (directory / name).write_text("<configuration>" + "\n".join(lines) + "</configuration>\n")


class Service:
    """A process that listens on a port."""

    def __init__(self, name, command, port, directory, **options):
        self.log = directory / f"{name}.log"
        self.name, self.port = name, port
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([str(w) for w in command], stdout=log, stderr=log, cwd=directory, **options)

    def wait(self):
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            if self.process.poll() is not None:
                break
            with socket.socket() as s:
                s.settimeout(1)
                if s.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            time.sleep(0.2)
        self.stop()
        sys.exit(f"{self.name} did not start:\n{self.log.read_text(errors='replace')[-3000:]}")

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def name_service(port):
    """Hadoop's properties of the name service `Lake`, whose name node listens at `port`."""
    return {
        "dfs.nameservices": "Lake",
        "dfs.ha.namenodes.Lake": "nn1",
        "dfs.namenode.rpc-address.Lake.nn1": f"127.0.0.1:{port}",
        "dfs.client.failover.proxy.provider.Lake": "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider",
    }


def metastore(directory, hadoop, buckets):
    """A Hive metastore over Derby in memory, with these properties of Hadoop; s3:// places are below a local directory."""
    directory.mkdir(parents=True)
    port, class_path = free_port(), jars("metastore")
    subprocess.run(["javac", "-cp", class_path, "-d", directory, HERE / "metastore" / "Bucket.java"], check=True)
    site(directory, "core-site.xml", {**hadoop, "fs.s3.impl": "Bucket", "fs.s3.root": buckets})
    site(directory, "metastore-site.xml", {
        "metastore.thrift.uris": f"thrift://127.0.0.1:{port}",
        "metastore.thrift.bind.host": "127.0.0.1",
        "metastore.warehouse.dir": f"file://{directory}/warehouse",
        "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.schema.autoCreateAll": "true",
        "metastore.schema.verification": "false",
        "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
        "metastore.expression.proxy": "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy",
    })
    command = ["java", "-Xmx512m", "-cp", f"{directory}:{class_path}"]
    command += ["org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", port]
    return Service("metastore", command, port, directory)


class Hdfs:
    """A name node and a data node."""

    def __init__(self, directory, port):
        directory.mkdir(parents=True)
        self.directory, self.port = directory, port
        self.class_path = f"{directory}:{jars('hdfs')}"
        loopback = "127.0.0.1"
        # The nodes' web pages are in no jar; empty ones will do.
        for pages in ("hdfs", "datanode"):
            (directory / "webapps" / pages).mkdir(parents=True)
        (directory / "log4j.properties").write_text(
            "log4j.rootLogger=WARN,console\nlog4j.appender.console=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.console.layout=org.apache.log4j.PatternLayout\nlog4j.appender.console.layout.ConversionPattern=%p %c: %m%n\n"
        )
        site(directory, "core-site.xml", {"fs.defaultFS": f"hdfs://{loopback}:{self.port}"})
        site(directory, "hdfs-site.xml", {
            "dfs.replication": 1,
            "dfs.namenode.name.dir": f"file://{directory}/name",
            "dfs.datanode.data.dir": f"file://{directory}/data",
            "dfs.namenode.http-address": f"{loopback}:{free_port()}",
            "dfs.datanode.address": f"{loopback}:{free_port()}",
            "dfs.datanode.http.address": f"{loopback}:{free_port()}",
            "dfs.datanode.ipc.address": f"{loopback}:{free_port()}",
            "dfs.datanode.hostname": loopback,
            "dfs.permissions.enabled": "false",
            "dfs.namenode.rpc-bind-host": loopback,
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        })
        node = "org.apache.hadoop.hdfs.server"
        self.java(f"{node}.namenode.NameNode", "-format", "-force", "-nonInteractive")
        command = ["java", "-Xmx256m", "-cp", self.class_path]
        self.name = Service("namenode", [*command, f"{node}.namenode.NameNode"], self.port, directory)
        self.name.wait()
        self.data = Service("datanode", [*command, f"{node}.datanode.DataNode"], self.port, directory)

    @property
    def url(self):
        return f"hdfs://127.0.0.1:{self.port}"

    def java(self, *words):
        done = subprocess.run(["java", "-Xmx256m", "-cp", self.class_path, *words], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(words)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")

    def put(self, source, target):
        """Copies a local directory's contents below `target`; waits for the data node where it is needed."""
        self.java("org.apache.hadoop.hdfs.tools.DFSAdmin", "-safemode", "wait")
        self.java("org.apache.hadoop.fs.FsShell", "-mkdir", "-p", str(pathlib.PurePosixPath(target).parent))
        self.java("org.apache.hadoop.fs.FsShell", "-put", str(source), target)

    def stop(self):
        self.data.stop()
        self.name.stop()


def gateway(directory):
    """An S3 server over `root` in a directory, with buckets `lake` and `other`."""
    if not GATEWAY.exists():
        raise RuntimeError("versitygw is not installed: make gateway")
    for bucket in ("lake", "other"):
        (directory / "root" / bucket).mkdir(parents=True)
    port = free_port()
    environment = dict(os.environ, ROOT_ACCESS_KEY=S3_KEY, ROOT_SECRET_KEY=S3_SECRET)
    command = [GATEWAY, "--port", f"127.0.0.1:{port}", "posix", "--nometa", directory / "root"]
    return Service("gateway", command, port, directory, env=environment)


def dipper(binary, directory, allowed):
    """A dipper server that may read files below `allowed`."""
    directory.mkdir(parents=True, exist_ok=True)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "HADOOP_"))}
    return Server(binary, directory, "--allow-dir", allowed, cwd=directory, env=environment)
