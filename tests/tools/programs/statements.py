#!/usr/bin/env python3
"""Sends the statements of tests/forms/tools*.txt over MySQL's protocol: those that give rows prepared, the others as text. Cargo's test of the
lists runs them inside the engine; here are the packets that drivers take apart."""

import os
import pathlib
import sys

import mysql.connector
from mysql.connector import FieldType, errors

FORMS = pathlib.Path(__file__).resolve().parents[2] / "forms"
ROWS = ("select", "show", "desc", "explain", "with", "table", "values")


def forms(path):
    """Label, outcome, statement, and the columns that its result must have."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("> "):
            found[-1][3].extend(line[2:].split(", "))
        elif line and line[0] not in "#=>":
            found.append((*line.split(" ", 2), []))
    return found


def opened(port, **options):
    return mysql.connector.connect(host="127.0.0.1", port=port, user="root", autocommit=True, use_pure=True, **options)


def send(connection, sql, prepared):
    """The columns of the last result."""
    cursor = connection.cursor(prepared=prepared)
    try:
        columns = []
        cursor.execute(sql)
        while True:
            if cursor.description:
                columns = [column[0] for column in cursor.description]
                cursor.fetchall()
            if prepared or not cursor.nextset():
                return columns
    finally:
        cursor.close()


def outcome(connection, sql, prepared=False):
    try:
        return "ok", send(connection, sql, prepared), ""
    except errors.Error as error:
        return "refused" if error.errno == 1235 else str(error.errno), [], str(error)


def wrong_of(connection, label, wanted, sql, columns):
    """What is wrong with the answer to a statement, or None."""
    # Statements may begin with a comment, also one that MySQL's programs hide words in.
    first = sql.split("*/")[-1] if sql.startswith("/*") and not sql.startswith("/*!") else sql
    prepared = wanted == "ok" and first.lstrip(" (").lower().startswith(ROWS) and ";" not in sql.rstrip("; ")
    found, names, why = outcome(connection, sql, prepared)
    if found != wanted:
        return f"{label}: expected {wanted}, found {found}: {sql}\n    {why}"
    missing = [name for name in columns if name not in names]
    if missing:
        return f"{label}: no column {missing} in {names}: {sql}"
    return None


def variables_are_varchar(connection):
    """Connector/J 5.1 sends no long statements where there is a TEXT among the variables that it asks for at start."""
    cursor = connection.cursor()
    cursor.execute("select @@sql_mode, @@max_allowed_packet, 'x'")
    cursor.fetchall()
    types = [column[1] for column in cursor.description]
    return types == [FieldType.VAR_STRING, FieldType.LONGLONG, FieldType.VAR_STRING]


def main():
    port = int(os.environ["DIPPER_PORT"])
    with opened(port) as connection:
        failed = not variables_are_varchar(connection)
    if failed:
        print("variables of text are no VARCHAR")
    for path in sorted(FORMS.glob("tools*.txt")):
        with opened(port) as connection:
            send(connection, "drop database if exists shop", False)
            all_forms = forms(path)
            wrong = [text for form in all_forms if (text := wrong_of(connection, *form))]
            send(connection, "drop database if exists shop", False)
        answered = 100 * (len(all_forms) - len(wrong)) / len(all_forms)
        print(f"{path.name}: {answered:.1f}% of {len(all_forms)} statements as expected")
        print(*wrong, sep="\n")
        failed |= bool(wrong)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
