"""Cases of run.py: StarRocks' transactions of several loads, headers of its clients and of Doris's connectors, JSON rows
with columns of their own."""

import concurrent.futures
import json
import signal
import time

import run

UNIQUE = "create table d.{} (k int, v int) unique key(k) distributed by hash(k) buckets 2"
DUPLICATE = "create table d.{} (k int, v int) duplicate key(k) distributed by hash(k) buckets 1"


class Client:
    """A client of the transaction interface: one table, labels of its own."""

    def __init__(self, server, table, more=None):
        self.server, self.table, self.more, self.stamp = server, table, more or {}, time.time_ns()

    def ask(self, step, label, body=b"", expected="OK", **more):
        headers = {"db": "d", "table": self.table, "label": f"{label}{self.stamp}", "Expect": "100-continue",
                   "column_separator": ",", **self.more, **more}
        method = "PUT" if step == "load" else "POST"
        answer = json.loads(self.server.request(method, f"/api/transaction/{step}", body, headers)[2])
        assert answer["Status"] == expected, (step, answer)
        return answer

    def state(self, label):
        answer = json.loads(self.server.request("GET", f"/api/d/get_load_state?label={label}{self.stamp}")[2])
        assert answer["data"] == answer["state"], answer
        return answer["state"]


def transactions(s):
    u, d = run.fresh(s, "u", UNIQUE), run.fresh(s, "d1", DUPLICATE)
    rows = lambda: s.sql(f"select * from d.{u} order by k")
    c = Client(s, u)
    begun = c.ask("begin", "a")
    assert c.ask("begin", "a", expected="LABEL_ALREADY_EXISTS")["ExistingJobStatus"] == "RUNNING"
    assert c.ask("load", "a", b"1,1\n2,2\n")["NumberLoadedRows"] == 2
    # Of rows with one key the later load's counts; nothing is seen before the commit.
    assert c.ask("load", "a", b"2,20\n3,30\n")["TxnId"] == begun["TxnId"]
    assert rows() == [] and c.state("a") == "PREPARE"
    assert c.ask("prepare", "a")["NumberLoadedRows"] == 4
    c.ask("prepare", "a")
    assert rows() == [] and c.state("a") == "PRECOMMITTED"
    assert c.ask("begin", "a", expected="LABEL_ALREADY_EXISTS")["ExistingJobStatus"] == "PREPARED"
    c.ask("commit", "a")
    assert rows() == [[1, 1], [2, 20], [3, 30]] and c.state("a") == "VISIBLE"
    # What is done is done.
    assert "already committed" in c.ask("commit", "a")["Message"]
    c.ask("rollback", "a", expected="FAILED")
    assert c.ask("begin", "a", expected="LABEL_ALREADY_EXISTS")["ExistingJobStatus"] == "FINISHED"
    for step in ("load", "prepare", "commit", "rollback"):
        c.ask(step, "nobody", b"1,1\n", expected="TXN_NOT_EXISTS")
    # A label that was rolled back is free; prepare may be left out.
    c.ask("begin", "b")
    c.ask("load", "b", b"9,9\n")
    c.ask("rollback", "b")
    c.ask("rollback", "b")
    c.ask("commit", "b", expected="FAILED")
    assert len(rows()) == 3 and c.state("b") == "ABORTED"
    c.ask("begin", "b")
    c.ask("load", "b", b"8,8\n")
    c.ask("commit", "b")
    assert [8, 8] in rows()
    # One without rows.
    c.ask("begin", "empty")
    c.ask("prepare", "empty")
    c.ask("commit", "empty")
    assert c.state("empty") == "VISIBLE"
    # A load that fails takes all with it.
    c.ask("begin", "bad")
    c.ask("load", "bad", b"7,7\n")
    failed = c.ask("load", "bad", b"x,7\n", expected="FAILED", strict_mode="true")
    assert "too many filtered rows" in failed["Message"] and "ErrorURL" in failed, failed
    c.ask("prepare", "bad", expected="TXN_NOT_EXISTS")
    c.ask("commit", "bad", expected="FAILED")
    # So does time.
    c.ask("begin", "late", timeout="1")
    c.ask("load", "late", b"6,6\n")
    c.ask("begin", "idle", idle_transaction_timeout="1")
    run.until(lambda: c.state("late") == "ABORTED" and c.state("idle") == "ABORTED")
    c.ask("prepare", "late", expected="TXN_NOT_EXISTS")
    assert [row[0] for row in rows()] == [1, 2, 3, 8]
    # Some columns: a load sees what the one before has brought.
    some = {"partial_columns": "true"}
    s.sql(f"insert into d.{u} values (1, 100)")
    w = run.fresh(s, "updated", "create table d.{} (k int, a int, b int) unique key(k) distributed by hash(k) buckets 1")
    c = Client(s, w)
    c.ask("begin", "p")
    c.ask("load", "p", b"1,1\n", columns="k,a", **some)
    c.ask("load", "p", b"1,2\n", columns="k,b", **some)
    c.ask("prepare", "p")
    c.ask("commit", "p")
    assert s.sql(f"select * from d.{w}") == [[1, 1, 2]]
    # What is asked must make sense.
    c.ask("begin", "other")
    c.table = d
    assert "one table" in c.ask("load", "other", b"1,1\n", expected="FAILED")["Message"]
    c.table = "nosuch"
    c.ask("begin", "no table", expected="FAILED")
    c.table = ""
    assert "'table' is missing" in c.ask("begin", "t", expected="FAILED")["Message"]
    c.table = d
    assert "Label format" in c.ask("begin", "a label with blanks ", expected="FAILED")["Message"]
    c.ask("begin", "t", expected="FAILED", timeout="soon")
    answer = json.loads(s.request("POST", "/api/transaction/begin", b"", {"label": "x", "table": d})[2])
    assert answer["Status"] == "FAILED" and "'db'" in answer["Message"], answer


def merge_condition(s):
    """StarRocks' condition of an update: a row replaces the one that is there only if its value is not smaller."""
    definition = "create table d.{} (k int not null, v int, t varchar(10), f double) primary key(k) distributed by hash(k) buckets 2"
    run.fresh(s, "mc", definition)
    rows = lambda: s.sql("select k, v, t from d.mc order by k")

    def load(body, expected="Success", word="", **headers):
        return run.status(s.load("mc", body, column_separator=",", **headers), expected, word)

    load(b"1,10,a,0\n2,10,b,0\n3,\\N,c,0\n")
    # Smaller values lose, equal ones and those that meet NULL win; new keys are new rows. All rows count as loaded.
    answer = s.load("mc", b"1,9,x,0\n2,10,y,0\n3,0,z,0\n4,1,n,0\n", column_separator=",", merge_condition="v")
    assert answer["NumberLoadedRows"] == 4, answer
    assert rows() == [[1, 10, "a"], [2, 10, "y"], [3, 0, "z"], [4, 1, "n"]], rows()
    # Of one key in a load the largest value counts, of equal ones the last row; NULL is the smallest.
    load(b"1,11,first,0\n1,12,most,0\n1,12,last,0\n1,\\N,null,0\n2,\\N,null,0\n", merge_condition="V")
    assert rows()[:2] == [[1, 12, "last"], [2, 10, "y"]], rows()
    # Text is compared as text; other loads are not bound by it.
    load(b"1,0,maybe,0\n", merge_condition="`t`")
    load(b"2,0,before,0\n", merge_condition="t")
    assert rows()[:2] == [[1, 0, "maybe"], [2, 10, "y"]], rows()
    load(b"2,1,plain,0\n")
    assert rows()[1] == [2, 1, "plain"], rows()
    # Some columns: those of a row that has lost stay as they are.
    load(b"1,5,some\n2,0,none\n", columns="k,v,t", partial_update="true", merge_condition="v")
    assert rows()[:2] == [[1, 5, "some"], [2, 1, "plain"]], rows()
    # Rows that delete are not compared.
    load(b"1,0,d,0\n2,0,keeps,0\n", merge_type="MERGE", delete="t = 'd'", merge_condition="v")
    assert rows() == [[2, 1, "plain"], [3, 0, "z"], [4, 1, "n"]], rows()
    load(b"2,0,1\n3,-1,0\n5,0,0\n", columns="k,v,__op", merge_condition="v")
    assert [row[0] for row in rows()] == [3, 4, 5] and rows()[0] == [3, 0, "z"], rows()
    # Rows that were deleted have no value to lose to.
    load(b"2,-7,again,0\n", merge_condition="v")
    assert rows()[0] == [2, -7, "again"], rows()

    # Two phases: compared with what is there at the commit, also after a restart.
    prepared = s.load("mc", b"2,5,prepared,0\n3,5,prepared,0\n", column_separator=",", merge_condition="v", two_phase_commit="true")
    load(b"2,6,later,0\n3,4,later,0\n")
    s.restart(signal.SIGKILL)
    headers = {"txn_id": str(prepared["TxnId"]), "txn_operation": "commit"}
    done = json.loads(s.request("PUT", "/api/d/_stream_load_2pc", b"", headers)[2])
    assert done["status"] == "Success", done
    assert rows()[:2] == [[2, 6, "later"], [3, 5, "prepared"]], rows()
    # Transactions: all of their loads have one condition.
    c = Client(s, "mc", {"merge_condition": "v"})
    c.ask("begin", "m")
    c.ask("load", "m", b"2,7,one,0\n3,4,one,0\n")
    c.ask("load", "m", b"2,6,two,0\n3,6,two,0\n")
    assert "one 'merge_condition', and that of the first is 'v'" in c.ask("load", "m", b"2,8,x,0\n", "FAILED", merge_condition="")["Message"]
    c.ask("prepare", "m")
    c.ask("commit", "m")
    assert rows()[:2] == [[2, 7, "one"], [3, 6, "two"]], rows()
    # Compaction and later loads keep what was decided.
    s.sql("admin compact table d.mc")
    load(b"2,6,less,0\n3,7,more,0\n", merge_condition="v")
    assert rows()[:2] == [[2, 7, "one"], [3, 7, "more"]], rows()

    # Many clients out of order: the largest value stays.
    def one(client):
        for step in range(12):
            value = (step * 7 + client * 5) % 60
            load(f"100,{value},c{client},0\n101,{-value},c{client},0\n".encode(), merge_condition="v")

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(4)))
    values = [(step * 7 + client * 5) % 60 for client in range(4) for step in range(12)]
    assert s.sql("select v from d.mc where k > 99 order by k") == [[max(values)], [-min(values)]], s.sql("select * from d.mc")

    for headers, word in [({"merge_condition": "nothing"}, "no column 'nothing'"), ({"merge_condition": "k"}, "key column"),
                          ({"merge_condition": "f"}, "values of type double are not compared"),
                          ({"merge_condition": "v", "columns": "k,t,f"}, "not among the columns of the load"),
                          ({"merge_condition": "v", "merge_type": "DELETE"}, "rows that delete")]:
        load(b"1,1,1,1\n", "Fail", word, **headers)
    run.fresh(s, "md", DUPLICATE)
    run.status(s.load("md", b"1,1\n", column_separator=",", merge_condition="v"), "Fail", "UNIQUE or PRIMARY KEY")
    run.fresh(s, "ms", UNIQUE + " properties ('function_column.sequence_col' = 'v')")
    run.status(s.load("ms", b"1,1\n", column_separator=",", merge_condition="v"), "Fail", "sequence column, which decides already")


def trim_double_quotes(s):
    """Quotes around fields are dropped, and hold nothing together."""
    definition = "create table d.{} (k int, a varchar(20), b varchar(20)) duplicate key(k) distributed by hash(k) buckets 1"
    run.fresh(s, "tq", definition)

    def load(body, expected="Success", word="", **headers):
        run.status(s.load("tq", body, column_separator=",", trim_double_quotes="true", **headers), expected, word)

    load(b'1,"x","y z"\n"2","say ""it""",5" pipe\n3,"open,"\n4,"\\N",\\N\n5,"",""""\n')
    found = s.sql("select * from d.tq order by k")
    assert found == [[1, "x", "y z"], [2, 'say ""it""', '5" pipe'], [3, '"open', '"'], [4, "\\N", None], [5, "", '""']], found
    # A separator in quotes separates all the same; `enclose` is for such files.
    load(b'6,"a,b",c\n', "Fail", "too many filtered rows")
    load(b"7,'a,b',\"c\"\n", enclose="'")
    # Without the header quotes are letters like others.
    run.status(s.load("tq", b'8,"x",y"\n', column_separator=","), "Success")
    assert s.sql("select * from d.tq where k > 5 order by k") == [[7, "a,b", "c"], [8, '"x"', 'y"']]
    # Names in the first line.
    load(b'"k","b","a"\n9,"b","a"\n', format="csv_with_names", columns="k,b,a")
    assert s.sql("select a, b from d.tq where k = 9") == [["a", "b"]]


def transactions_over_restarts(s):
    u = run.fresh(s, "u", UNIQUE)
    c = Client(s, u)
    for label in ("prepared", "open", "given up"):
        c.ask("begin", label.replace(" ", "_"))
        c.ask("load", label.replace(" ", "_"), b"1,1\n")
    c.ask("prepare", "prepared")
    c.ask("prepare", "given_up")
    s.restart(signal.SIGKILL)
    assert s.sql(f"select count(*) from d.{u}") == [[0]]
    assert (c.state("prepared"), c.state("open")) == ("PRECOMMITTED", "ABORTED")
    c.ask("load", "open", b"1,1\n", expected="TXN_NOT_EXISTS")
    c.ask("commit", "open", expected="FAILED")
    c.ask("begin", "open")
    c.ask("commit", "prepared")
    c.ask("rollback", "given_up")
    assert s.sql(f"select * from d.{u}") == [[1, 1]]
    assert c.state("given_up") == "ABORTED"


def transactions_at_once(s):
    """Loads of one transaction that come at the same time are all in it; transactions do not wait for each other."""
    d = run.fresh(s, "d1", DUPLICATE)
    c = Client(s, d)

    def one(n):
        label = f"t{n}_"
        c.ask("begin", label)
        with concurrent.futures.ThreadPoolExecutor(4) as loads:
            list(loads.map(lambda i: c.ask("load", label, f"{n},{i}\n".encode()), range(4)))
        if n % 2:
            c.ask("prepare", label)
        c.ask("rollback" if n % 4 == 3 else "commit", label)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(12)))
    found = s.sql(f"select k, count(distinct v) from d.{d} group by k order by k")
    assert found == [[n, 4] for n in range(12) if n % 4 != 3], found


def transactions_of_users(s):
    u = run.fresh(s, "u", UNIQUE)
    s.sql("create user tx identified by 'pw'")
    s.sql("grant select on d.* to tx")
    import base64
    stranger = Client(s, u, {"Authorization": "Basic " + base64.b64encode(b"tx:pw").decode()})
    assert "INSERT command denied" in stranger.ask("begin", "s", expected="FAILED")["Message"]
    own = Client(s, u)
    stranger.stamp = own.stamp
    own.ask("begin", "o")
    own.ask("load", "o", b"1,1\n")
    for step in ("load", "prepare", "commit", "rollback"):
        assert "denied" in stranger.ask(step, "o", b"2,2\n", expected="FAILED")["Message"]
    own.ask("prepare", "o")
    assert "denied" in stranger.ask("commit", "o", expected="FAILED")["Message"]
    own.ask("commit", "o")
    assert s.sql(f"select * from d.{u}") == [[1, 1]]
    s.sql("drop user tx")


def headers_of_connectors(s):
    """What Flink's connector for Doris and StarRocks' clients send with each load."""
    u, d = run.fresh(s, "u", UNIQUE), run.fresh(s, "d1", DUPLICATE)
    sign = {"hidden_columns": "__DORIS_DELETE_SIGN__", "column_separator": ","}
    run.status(s.load(d, b"1,1\n2,2\n", sign, columns="`k`,`v`"), "Success")
    assert s.count(d) == 2
    run.status(s.load(u, b"1,1,0\n2,2,0\n2,2,1\n", sign, columns="`k`,`v`,`__DORIS_DELETE_SIGN__`"), "Success")
    run.status(s.load(u, b"3,3,0\n1,1,1\n", sign), "Success")
    assert s.sql(f"select * from d.{u}") == [[3, 3]]
    run.status(s.load(d, b"1,1\n", {"column_separator": ",", "db": "d", "table": d}, columns="k,v"), "Success")
    assert s.count(d) == 3
    state = json.loads(s.request("GET", "/api/d/get_load_state?label=nobody_has_it")[2])
    assert (state["state"], state["data"], state["code"]) == ("UNKNOWN", "UNKNOWN", 0), state
    # Blanks around fields, inside of which they stay.
    t = run.fresh(s, "t", "create table d.{} (k int, a string, b string) duplicate key(k) distributed by hash(k) buckets 1")
    spaces = {"column_separator": ",", "enclose": '"', "trim_space": "true"}
    run.status(s.load(t, b' 1 , plain , " a ""b"" " \n2,"x",\t"y"\n', spaces), "Success")
    assert s.sql(f"select * from d.{t} order by k") == [[1, "plain", ' a "b" '], [2, "x", "y"]]
    run.status(s.load(t, b" 3 , c , d \n", {"column_separator": ","}), "Success")
    assert s.sql(f"select a from d.{t} where k = 3") == [[" c "]]


def flexible_columns(s):
    """UPDATE_FLEXIBLE_COLUMNS: each row changes the columns that it has."""
    f = run.fresh(s, "f", """create table d.{} (k int, name varchar(20), nick varchar(20) default 'N', age int,
        changed datetime(6) default current_timestamp(6) on update current_timestamp(6)) unique key(k) distributed by hash(k) buckets 2""")
    s.sql(f"insert into d.{f} (k, name, nick, age, changed) values (2, 'b', 'bb', 20, '2001-01-01'), (3, 'c', 'cc', 30, '2001-01-01'), (5, 'e', 'ee', 50, '2001-01-01')")

    def load(*rows, table=f, **more):
        headers = {"format": "json", "unique_key_update_mode": "UPDATE_FLEXIBLE_COLUMNS", **more}
        return s.load(table, "\n".join(map(json.dumps, rows)).encode(), headers)

    # Rows of one key add up, in their order.
    run.status(load({"k": 2, "age": 21}, {"k": 3, "nick": "CC"}, {"k": 4, "name": "d"}, {"k": 4, "age": 7}, {"k": 2, "nick": None},
                    {"K": 2, "name": "B"}), "Success")
    rows = f"select k, name, nick, age, if(year(changed) > 2001, 1, 0) from d.{f} order by k"
    assert s.sql(rows) == [[2, "B", None, 21, 1], [3, "c", "CC", 30, 1], [4, "d", "N", 7, 1], [5, "e", "ee", 50, 0]], s.sql(rows)
    # A row that deletes, and one that comes after it.
    sign = "__DORIS_DELETE_SIGN__"
    run.status(load({"k": 2, sign: 1}, {"k": 3, sign: 1}, {"k": 3, "age": 99}, {"k": 6, "age": 1}, {"k": 6, sign: 1}), "Success")
    assert s.sql(rows) == [[3, None, "N", 99, 1], [4, "d", "N", 7, 1], [5, "e", "ee", 50, 0]], s.sql(rows)
    # No key, no row.
    run.status(load({"age": 21}), "Fail", "no key column 'k'")
    answer = run.status(load({"age": 21}, {"k": 4, "age": 8}, max_filter_ratio="0.5"), "Success")
    assert (answer["NumberFilteredRows"], answer["NumberLoadedRows"]) == (1, 1), answer
    run.status(load({"k": 50, "age": 1}, partial_update_new_key_behavior="ERROR"), "Fail", "E-7003")
    run.status(load({"k": 4, "age": "x"}, strict_mode="true"), "Fail", "too many filtered")
    answer = run.status(load({"k": 4, "age": "x"}, {"k": 5, "age": 51}, strict_mode="true", max_filter_ratio="0.5"), "Success")
    assert s.sql(f"select k, nick, age from d.{f} where k > 3 order by k") == [[4, "N", 8], [5, "ee", 51]]
    assert s.sql(f"select count(*) from d.{f}") == [[3]]
    # Pieces of the body follow each other.
    wide = [{"k": i % 3, "name" if i % 2 else "nick": f"{i}", "pad": "x" * 2000} for i in range(3000)]
    run.status(load(*wide), "Success")
    assert s.sql(f"select k, name, nick from d.{f} where k < 3 order by k") == [
        [0, "2997", "2994"], [1, "2995", "2998"], [2, "2999", "2996"]]
    # The greater sequence wins, column by column.
    q = run.fresh(s, "q", "create table d.{} (k int, v int, w int, ts int) unique key(k) distributed by hash(k) buckets 1 "
                          "properties('function_column.sequence_col' = 'ts')")
    s.sql(f"insert into d.{q} values (1, 1, 1, 10)")
    run.status(load({"k": 1, "v": 5, "ts": 5}, {"k": 1, "w": 6, "ts": 20}, {"k": 1, "v": 7, "ts": 15}, {"k": 1, "v": 8}, table=q), "Success")
    assert s.sql(f"select * from d.{q}") == [[1, 8, 6, 20]]
    # A row behind one that deletes its key is a new one, with the sequence that the key had unless it brings another.
    def kept(*rows, table=q, **more):
        run.status(load(*rows, table=table, **more), "Success")
        return s.sql(f"select * from d.{table}")

    assert kept({"k": 1, sign: 1}, {"k": 1, "v": 3}) == [[1, 3, None, 20]]
    assert kept({"k": 1, sign: 1, "ts": 30}) == []
    assert kept({"k": 1, "w": 4}) == [[1, None, 4, 30]]
    assert kept({"k": 1, sign: 1, "ts": 40}, {"k": 1, "v": 1, "ts": 35}, {"k": 1, "v": 2}) == [[1, 2, None, 40]]
    assert kept({"k": 1, sign: 1, "ts": 50}) == []
    assert kept({"k": 1, "v": 9, "ts": 45}, {"k": 2, "v": 1}, {"k": 2, sign: 1}) == []
    assert kept({"k": 1, "v": 9, "ts": 45}, {"k": 1, "w": 5}) == [[1, None, 5, 50]]
    s.sql(f"delete from d.{q} where k = 1")
    run.status(s.load(q, b"1\t6\n", columns="k,v", partial_columns="true"), "Success")
    assert s.sql(f"select * from d.{q}") == [[1, 6, None, 50]]
    h = run.fresh(s, "h", "create table d.{} (k int, v int, w int default '7') unique key(k) distributed by hash(k) buckets 1 "
                          "properties('function_column.sequence_type' = 'int')")
    number = "__DORIS_SEQUENCE_COL__"
    assert kept({"k": 1, "v": 1, "w": 1, number: 10}, {"k": 1, sign: 1}, {"k": 1, "v": 2}, table=h) == [[1, 2, 7]]
    assert kept({"k": 1, sign: 1, number: 11}, table=h) == []
    assert kept({"k": 1, "w": 3, number: 5}, table=h) == []
    assert kept({"k": 1, "w": 3}, table=h) == [[1, None, 3]]
    # Loads at the same time.
    names = ("name", "nick", "age")
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        done = list(pool.map(lambda n: [load({"k": 7, names[n]: i})["Status"] for i in range(10)], range(3)))
    assert done == [["Success"] * 10] * 3, done
    assert s.sql(f"select name, nick, age from d.{f} where k = 7") == [["9", "9", 9]]
    run.status(load({"k": 1, "v": 1}, table=run.fresh(s, "d1", DUPLICATE)), "Fail", "Only unique key")


def json_paths(s):
    j = run.fresh(s, "j", "create table d.{} (id int, code int, city varchar(40)) duplicate key(id) distributed by hash(id) buckets 1")

    def loaded(body, **headers):
        s.sql(f"truncate table d.{j}")
        run.status(s.load(j, body, {"format": "json", **headers}), "Success")
        return s.sql(f"select * from d.{j} order by id, code")

    # Expressions alone: the body has the table's columns.
    assert loaded(b'{"id":1,"city":"x"}', columns="id = id * 10") == [[10, None, "x"]]
    assert loaded(b'{"id":1}', jsonpaths='["$.id"]', columns="code = id * 10 + 200") == [[1, 210, None]]
    assert loaded(b"1,5,x\n", format="csv", column_separator=",", columns="id = id * 10") == [[10, 5, "x"]]
    # A root of members is in each item of an array; elsewhere it leads to the rows.
    items = {"json_root": "$.item", "strip_outer_array": "true"}
    assert loaded(b'[{"item":{"id":1}},{"item":{"id":3}}]', **items) == [[1, None, None], [3, None, None]]
    assert loaded(b'[{"item":{"id":1}},{"x":1}]', max_filter_ratio="1", **items) == [[1, None, None]]
    assert loaded(b'{"item":[{"id":1},{"id":2}]}', **items) == [[1, None, None], [2, None, None]]
    # The whole object, and no paths.
    assert loaded(b'{"id":1,"city":"x"}', jsonpaths='["$.id","$.code","$."]') == [[1, None, '{"id":1,"city":"x"}']]
    assert loaded(b'{"id":1,"city":"x"}', jsonpaths="[]") == [[1, None, "x"]]


def http_stream_json(s):
    """JSON as the body of an INSERT: its columns are the members of the first row, or what the paths end with."""
    j = run.fresh(s, "j", "create table d.{} (id int, city varchar(40)) duplicate key(id) distributed by hash(id) buckets 1")

    def loaded(body, options, columns="id, city", **headers):
        s.sql(f"truncate table d.{j}")
        options = "".join(f", '{key}' = '{value}'" for key, value in options.items())
        sql = f"insert into d.{j} select {columns} from http_stream('format' = 'json'{options})"
        return json.loads(s.request("PUT", "/api/_http_stream", body, {"sql": sql, **headers})[2])

    def rows():
        return s.sql(f"select * from d.{j} order by id")

    lines = b'\n{"id":1,"city":"a\\u0062"}\n{"city":"c","id":"2","more":1}\n{"id":3}\n'
    answer = run.status(loaded(lines, {"read_json_by_line": "true"}), "Success")
    assert (answer["NumberTotalRows"], answer["NumberLoadedRows"]) == (3, 3), answer
    assert rows() == [[1, "ab"], [2, "c"], [3, None]]
    run.status(loaded(lines, {}, "id * 10, upper(city)"), "Success")
    assert rows() == [[10, "AB"], [20, "C"], [30, None]]
    run.status(loaded(b'[{"id":1,"city":"a"},{"id":2}]', {"strip_outer_array": "true"}), "Success")
    assert rows() == [[1, "a"], [2, None]]
    run.status(loaded(b'{"data":[{"id":1,"city":"a"},{"id":2}]}', {"strip_outer_array": "true", "json_root": "$.data"}), "Success")
    assert rows() == [[1, "a"], [2, None]]
    run.status(loaded(b'[{"row":{"id":1,"city":"a"}},{"row":{"id":2}}]', {"strip_outer_array": "true", "json_root": "$.row"}), "Success")
    assert rows() == [[1, "a"], [2, None]]
    run.status(loaded(b'{"a":{"id":1},"b":["x","y"]}\n', {"jsonpaths": '["$.a.id", "$.b[1]"]'}, "id, c2"), "Success")
    assert rows() == [[1, "y"]]
    many = b"".join(b'{"id":%d,"city":"a city with a long name"}\n' % i for i in range(100_000))
    assert run.status(loaded(many, {}), "Success")["NumberLoadedRows"] == 100_000
    assert s.sql(f"select count(distinct id) from d.{j}") == [[100_000]]
    # Rows that are none.
    bad = b'{"id":1,"city":"a"}\nnonsense\n'
    assert run.status(loaded(bad, {}), "Fail")["RejectedRows"][0]["line"] == 2 and rows() == []
    answer = run.status(loaded(bad, {}, max_filter_ratio="0.5"), "Success")
    assert (answer["NumberFilteredRows"], answer["NumberLoadedRows"]) == (1, 1) and rows() == [[1, "a"]], answer
    for body, options, word in [(b"", {}, "does not begin"), (b"[1]", {}, "does not begin"),
                                (b'{"id":1}', {"jsonpaths": '["$..x"]'}, "Invalid json path"),
                                (b'{"id":1}', {"csv_schema": "id:int"}, "'csv_schema' is for text")]:
        run.status(loaded(body, options), "Fail", word)
    run.status(loaded(lines, {}, strip_outer_array="true"), "Fail", "option of that name")


def sequences_are_given(s):
    """Rows of a table with a sequence column bring it, unless it has a default or the rows are of some columns."""
    mapped = run.fresh(s, "m", "create table d.{} (k int, v int, ut int) unique key(k) distributed by hash(k) buckets 1 "
                               "properties('function_column.sequence_col' = 'ut')")
    comma = {"column_separator": ","}
    run.status(s.load(mapped, b"1,1\n", comma, columns="k,v"), "Fail", "need to specify the sequence column")
    run.status(s.load(mapped, b"1,1\n", comma, columns="k,v,ut=v+1"), "Success")
    run.status(s.load(mapped, b"1,1,1\n", comma), "Success")
    run.status(s.load(mapped, b"1,9\n", comma, columns="k,v", partial_columns="true"), "Success")
    run.status(s.load(mapped, b"2\n", comma, columns="k", merge_type="DELETE"), "Success")
    assert s.sql(f"select * from d.{mapped}") == [[1, 9, 2]]
    default = run.fresh(s, "m", "create table d.{} (k int, v int, ut int default '5') unique key(k) distributed by hash(k) "
                                "buckets 1 properties('function_column.sequence_col' = 'ut')")
    run.status(s.load(default, b"1,1\n", comma, columns="k,v"), "Success")
    assert s.sql(f"select * from d.{default}") == [[1, 1, 5]]
    hidden = run.fresh(s, "m", "create table d.{} (k int, v int, ut int) unique key(k) distributed by hash(k) buckets 1 "
                               "properties('function_column.sequence_type' = 'int')")
    for more in ({}, {"partial_columns": "true", "columns": "k,v"}):
        run.status(s.load(hidden, b"1,1\n", comma, **more), "Fail", "need to specify the sequence column")
    by = {"function_column.sequence_col": "ut"}
    run.status(s.load(hidden, b"1,1,1\n", {**comma, **by}), "Success")
    run.status(s.load(hidden, b"1,5\n", {**comma, **by}, columns="k,ut", partial_columns="true"), "Success")
    assert s.sql(f"select * from d.{hidden}") == [[1, 1, 5]]


CASES = [transactions, merge_condition, trim_double_quotes, transactions_over_restarts, transactions_at_once,
         transactions_of_users, headers_of_connectors, flexible_columns, json_paths, http_stream_json, sequences_are_given]
