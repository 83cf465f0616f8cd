#!/usr/bin/env python3
"""SQLAlchemy's dialects, Superset, Django, dumps, drizzle-kit, dbt and statements of others: `everyday.py NAME MYSQL_PORT HTTP_PORT` runs one of
them against a server, and prints `ok NAME` or `FAILED NAME` for each check. See README.md."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "clients"))
import run as clients  # noqa: E402  (the directory of the client programs is no package)

CACHE = clients.CACHE / "tools"


class Failed(Exception):
    """A program did not do what it should."""


class Address:
    """Where the server is."""

    def __init__(self, port, http):
        self.port, self.http = port, http

    def environment(self):
        return dict(os.environ, DIPPER_PORT=self.port, DIPPER_HTTP=self.http, PYTHONDONTWRITEBYTECODE="1", PYTHONUTF8="1")


def run(command, **options):
    """Runs a program; gives its output, which is shown if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace",
                          check=False, **options)
    if done.returncode != 0:
        raise Failed(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


def venv(name):
    """Installs what requirements/NAME.txt asks for into a virtual environment; what NAME.alone.txt asks for without what that
    asks for itself."""
    directory, wanted = CACHE / name, HERE / "requirements" / f"{name}.txt"
    alone = wanted.with_suffix(".alone.txt")
    sources = [wanted, *([alone] if alone.exists() else [])]
    if not clients.stamped(directory, *sources):
        clients.need("gcc", "gcc")
        clients.need("pkg-config", "pkg-config")
        if subprocess.run(["pkg-config", "--exists", "libmariadb"], check=False).returncode != 0:
            clients.apt("libmariadb-dev", "python3-dev")
        clients.run([sys.executable, "-m", "venv", directory])
        clients.run([directory / "bin/pip", "install", "-q", "--prefer-binary", "-r", wanted])
        if alone.exists():
            clients.run([directory / "bin/pip", "install", "-q", "--no-deps", "-r", alone])
        clients.stamp(directory, *sources)
    return directory / "bin"


def mariadb_programs():
    for program in ("mariadb", "mysqldump", "mysqlslap"):
        clients.need(program, "mariadb-client")


def drizzle_kit():
    clients.need("npm", "nodejs", "npm")
    directory, wanted = CACHE / "drizzle", HERE / "drizzle" / "package.json"
    if not clients.stamped(directory, wanted):
        shutil.copy(wanted, directory)
        # Nothing of the packages' own is run at installation.
        clients.run(["npm", "install", "--no-fund", "--no-audit", "--ignore-scripts"], cwd=directory)
        clients.stamp(directory, wanted)


def python(name, program):
    """A test in Python, under the requirements of its name."""
    return lambda server: print(run([venv(name) / "python", HERE / "programs" / program], env=server.environment()).rstrip())


def statements(server):
    """What other programs send, with MySQL's connector for Python, which the tests of clients install."""
    program = HERE / "programs" / "statements.py"
    print(run([clients.CACHE / "python/venv/bin/python", program], env=server.environment()).rstrip())


def dbt(name):
    """seed, run, run again, snapshot twice, test, docs of the project in dbt/."""
    def work(server):
        binary = venv(name) / "dbt"
        with tempfile.TemporaryDirectory(prefix="dipper-dbt-") as directory:
            project = pathlib.Path(directory) / "project"
            shutil.copytree(HERE / "dbt", project)
            environment = dict(server.environment(), DBT_PROFILES_DIR=str(project), DBT_TARGET=name,
                               DBT_SEND_ANONYMOUS_USAGE_STATS="false", DO_NOT_TRACK="1", DBT_STATIC_ANALYSIS="off")
            # The second run takes the incremental way; the second snapshot finds what has changed.
            doubled = ["--vars", "prices: 2"]
            # dbt-starrocks' second snapshot would UPDATE a table without a PRIMARY KEY. With one it makes its own table of changes under the
            # same key, whose columns are not the first ones there. StarRocks and Doris refuse both, too.
            twice = name != "dbt-starrocks"
            again = [["snapshot", *doubled]] if twice else []
            for step in (["debug"], ["seed"], ["run"], ["run"], ["snapshot"], ["test"], ["run", *doubled], *again,
                         ["docs", "generate"]):
                output = run([binary, "--no-use-colors", *step], cwd=project, env=environment)
                print(f"  {' '.join(step)}: {output.strip().splitlines()[-1][-100:]}")
        states = mysql(server, "select id, amount, dbt_valid_to is null from orders_snapshot order by 1, 2",
                       database=name.replace("-", "_"))
        kept = [line.split("\t")[2] for line in states.splitlines()]
        if kept != (["0", "1"] if twice else ["1"]) * 3:
            raise Failed(f"the snapshot does not have each row before and after: {states}")
    return work


def mysql(server, *statements, database=None):
    """Rows of the command-line client, as text."""
    command = ["mariadb", "--no-defaults", "--protocol=tcp", "-h", "127.0.0.1", "-P", server.port, "-u", "root", "-N", "-B"]
    command += [database] if database else []
    return run([*command, "-e", ";".join(statements)])


def dump(server):
    """mysqldump of everything, and the same rows out of it again."""
    name = "dumped"
    mysql(server, f"drop database if exists {name}", f"create database {name}")
    mysql(server, "create table p (id int primary key, t text, d datetime, n decimal(10,2))",
          r"insert into p values (1, 'it''s \\ \"x\"', '2024-01-31 01:02:03', 1.50), (2, null, null, null)",
          "create table u (k int, v bigint) unique key (k) distributed by hash (k) buckets 2",
          "insert into u select number, number * 2 from numbers('number' = '1000')",
          "create view w as select count(*) n, sum(v) s from u", database=name)
    wanted = [mysql(server, f"select * from {table} order by 1", database=name) for table in ("p", "u", "w")]
    options = ["--no-defaults", "--protocol=tcp", "-h", "127.0.0.1", "-P", server.port, "-u", "root"]
    run(["mysqldump", *options, "--all-databases"])
    run(["mysqldump", *options, "--all-databases", "--single-transaction", "--routines", "--events", "--triggers"])
    text = run(["mysqldump", *options, "--databases", name])
    mysql(server, f"drop database {name} force")
    done = subprocess.run(["mariadb", *[str(o) for o in options]], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"the dump cannot be read again: {done.stderr}")
    found = [mysql(server, f"select * from {table} order by 1", database=name) for table in ("p", "u", "w")]
    if found != wanted:
        raise Failed(f"the dump has other rows: {found} != {wanted}")


def slap(server):
    options = ["--no-defaults", "--protocol=tcp", "-h", "127.0.0.1", "-P", server.port, "-u", "root"]
    output = run(["mysqlslap", *options, "--auto-generate-sql", "--concurrency=4", "--iterations=2", "--number-of-queries=40"])
    if "Average number of queries per client: 10" not in output:
        raise Failed(output)
    run(["mysqlslap", *options, "--create-schema=slap", "--query=select 1", "--concurrency=8", "--number-of-queries=400"])


def drizzle(server):
    """drizzle-kit reads the tables that are there into TypeScript."""
    directory = CACHE / "drizzle"
    mysql(server, "drop database if exists drizzled", "create database drizzled")
    mysql(server, "create table users (id bigint not null auto_increment primary key, name varchar(50) not null, born date)",
          "create table log (at datetime, line text) duplicate key (at) distributed by hash (at) buckets 1", database="drizzled")
    shutil.rmtree(directory / "out", ignore_errors=True)
    url = f"mysql://root@127.0.0.1:{server.port}/drizzled"
    run([directory / "node_modules/.bin/drizzle-kit", "introspect", "--dialect=mysql", f"--url={url}", "--out=out"],
        cwd=directory, env=server.environment())
    schema = (directory / "out" / "schema.ts").read_text()
    for word in ('mysqlTable("users"', 'mysqlTable("log"', 'varchar({ length: 50 })', 'autoincrement()'):
        if word not in schema:
            raise Failed(f"{word} is not in what drizzle-kit read:\n{schema}")


# For each: what installs it, and what it does.
TOOLS = {
    "sqlalchemy": (lambda: venv("sqlalchemy"), python("sqlalchemy", "sqlalchemy_dialects.py")),
    "superset": (lambda: venv("superset"), python("superset", "superset_specs.py")),
    "django": (lambda: venv("django"), python("django", "django_orm.py")),
    "mysqldump": (mariadb_programs, dump),
    "mysqlslap": (mariadb_programs, slap),
    "drizzle-kit": (drizzle_kit, drizzle),
    "dbt-doris": (lambda: venv("dbt-doris"), dbt("dbt-doris")),
    "dbt-starrocks": (lambda: venv("dbt-starrocks"), dbt("dbt-starrocks")),
    "dbt-for-apache-doris": (lambda: venv("dbt-for-apache-doris"), dbt("dbt-for-apache-doris")),
    "statements": (lambda: clients.python_client("connector"), statements),
}


def command(name):
    """Installs a tool; gives the words behind which the ports of MySQL and HTTP are put."""
    TOOLS[name][0]()
    if name.startswith("dbt"):
        mariadb_programs()
    return [sys.executable, HERE / "everyday.py", name]


def main():
    name, port, http = sys.argv[1:]
    try:
        TOOLS[name][1](Address(port, http))
    except Failed as error:
        print(error)
        print(f"FAILED {name}")
        return 1
    print(f"ok {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
