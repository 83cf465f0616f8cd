#!/usr/bin/env python3
"""Wrong passwords, by real clients on both ports: who guesses waits, and nobody else from the same address does.

    logins.py BINARY

Clients come from several addresses of loopback: 127.0.0.2 is a load balancer behind which a guesser sits. Needs PyMySQL. Takes some 15 s.
"""

import base64
import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import sys
import tempfile
import time

import pymysql

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from server import Server  # noqa: E402

BALANCER, ELSEWHERE = "127.0.0.2", "127.0.0.3"
# Wrong passwords, and accounts of a search, that cost nothing.
FREE = 10
# Logins of one account from one address that may wait.
WAITING_MAX = 16
SOON = 0.5


class Logins(Server):
    """A server that is logged in to on both ports."""

    def by_mysql(self, user, password, address):
        """The error's number, 0 for none."""
        try:
            pymysql.connect(host="127.0.0.1", port=self.mysql, user=user, password=password, bind_address=address, connect_timeout=20).close()
            return 0
        except pymysql.err.MySQLError as error:
            return error.args[0]

    def by_http(self, user, password, address):
        """The same: 1045 for code 401 of the answer, 1129 for 429."""
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=20, source_address=(address, 0))
        with contextlib.closing(connection):
            auth = base64.b64encode(f"{user}:{password}".encode()).decode()
            connection.request("GET", "/api/d/get_load_state?label=x", headers={"Authorization": f"Basic {auth}"})
            code = json.loads(connection.getresponse().read())["code"]
            return {401: 1045, 429: 1129}.get(code, code)

    @property
    def ports(self):
        return (self.by_mysql, self.by_http)


def timed(call, *arguments):
    begun = time.monotonic()
    return call(*arguments), time.monotonic() - begun


def soon(call, user, password, address, expected=0):
    got, took = timed(call, user, password, address)
    assert got == expected and took < SOON, f"{call.__name__} {user} from {address}: {got} after {took:.2f} s"


def not_sooner(wait, call, user, password, expected):
    got, took = timed(call, user, password, BALANCER)
    assert got == expected and wait <= took < wait + 2, f"{call.__name__} {user}: {got} after {took:.2f} s, not {wait} s"


def guesses_at_one_account(server):
    """The ports count together. Right and wrong passwords wait alike, and others do not at all."""
    for n in range(FREE + 1):
        soon(server.ports[n % 2], "guessed", f"no {n}", BALANCER, 1045)
    for n, wait in enumerate([0.1, 0.2, 0.4]):
        not_sooner(wait, server.ports[n % 2], "guessed", "no", 1045)
    for port in server.ports:
        not_sooner(0.8, port, "guessed", "right", 0)
    for port in server.ports:
        soon(port, "guessed", "right", ELSEWHERE)
        # One who was there before, and one who was not.
        soon(port, "ann", "right", BALANCER)
    soon(server.by_mysql, "bob", "right", BALANCER)
    soon(server.by_http, "bob", "wrong", BALANCER, 1045)


def more_guesses_than_may_wait(server):
    """More connections do not guess faster, and nobody else is refused or waits meanwhile."""
    guess = lambda n: timed(server.ports[n % 2], "guessed", f"no {n}", BALANCER)  # noqa: E731
    with concurrent.futures.ThreadPoolExecutor(WAITING_MAX * 3) as pool:
        guesses = [pool.submit(guess, n) for n in range(WAITING_MAX * 3)]
        time.sleep(0.3)
        for port in server.ports:
            for user in ("ann", "bob"):
                soon(port, user, "right", BALANCER)
            soon(port, "guessed", "right", ELSEWHERE)
        answers = [done.result() for done in guesses]
    refused = sum(got == 1129 for got, _ in answers)
    assert refused >= WAITING_MAX, f"{refused} of {len(answers)} are refused"
    assert all(took >= 0.1 for got, took in answers if got == 1045), answers


def a_search_over_accounts(server):
    """One password for many accounts: strangers from there wait and get in, who was there before notices nothing."""
    for n in range(FREE):
        soon(server.ports[n % 2], f"user{n}", "Summer2024", BALANCER, 1045)
    begun = time.monotonic()
    for n in range(FREE, FREE + 4):
        assert server.ports[n % 2](f"user{n}", "Summer2024", BALANCER) == 1045
    assert time.monotonic() - begun > 0.7, "the search is not slowed"
    for port in server.ports:
        soon(port, "ann", "right", BALANCER)
        soon(port, "cid", "right", ELSEWHERE)
    got, took = timed(server.by_mysql, "cid", "right", BALANCER)
    assert got == 0 and 0.4 < took < 3, f"a stranger: {got} after {took:.2f} s"
    # Now he was there before.
    soon(server.by_http, "cid", "right", BALANCER)


def main():
    with tempfile.TemporaryDirectory(prefix="dipper-logins-") as directory:
        server = Logins(pathlib.Path(sys.argv[1]), directory)
        try:
            root = pymysql.connect(host="127.0.0.1", port=server.mysql, user="root")
            with root.cursor() as cursor:
                cursor.execute("CREATE DATABASE d")
                for user in ("ann", "bob", "cid", "guessed"):
                    cursor.execute(f"CREATE USER {user} IDENTIFIED BY 'right'")
                    cursor.execute(f"GRANT SELECT_PRIV ON d.* TO {user}")
            soon(server.by_mysql, "ann", "right", BALANCER)
            for case in (guesses_at_one_account, more_guesses_than_may_wait, a_search_over_accounts):
                begun = time.monotonic()
                case(server)
                print(f"ok {case.__name__} ({time.monotonic() - begun:.1f} s)", flush=True)
        finally:
            server.process.terminate()
            server.process.wait()


if __name__ == "__main__":
    main()
