// The client check for go-sql-driver/mysql.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

var failed = 0

func check(name string, run func() error) {
	if err := run(); err != nil {
		failed++
		fmt.Printf("FAIL %s: %s\n", name, strings.Join(strings.Fields(err.Error()), " "))
		return
	}
	fmt.Printf("ok %s\n", name)
}

func equal(found, expected any) error {
	if fmt.Sprint(found) != fmt.Sprint(expected) {
		return fmt.Errorf("expected %v, found %v", expected, found)
	}
	return nil
}

func open(user, options string) (*sql.DB, error) {
	address := os.Getenv("DIPPER_HOST") + ":" + os.Getenv("DIPPER_PORT")
	return sql.Open("mysql", user+"@tcp("+address+")/?"+options)
}

// refused says whether err is the MySQL error of this number.
func refused(err error, number uint16, state string) error {
	var server *mysql.MySQLError
	if !errors.As(err, &server) {
		return fmt.Errorf("expected error %d, found %v", number, err)
	}
	return equal(fmt.Sprint(server.Number, string(server.SQLState[:])), fmt.Sprint(number, state))
}

func types(rows *sql.Rows, err error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		return fmt.Errorf("no row: %v", rows.Err())
	}
	var tiny int8
	var small int16
	var number int32
	var big int64
	var large, decimal, text, array string
	var boolean bool
	var float float32
	var double float64
	var date, datetime, micros time.Time
	var null sql.NullString
	err = rows.Scan(&tiny, &small, &number, &big, &large, &boolean, &float, &double, &decimal, &date, &datetime,
		&micros, &text, &array, &null)
	if err != nil {
		return err
	}
	found := fmt.Sprint(tiny, small, number, big, large, boolean, float, double, decimal, date.Format(time.DateOnly),
		datetime.Format(time.DateTime), micros.Format(time.RFC3339Nano), text, array, null.Valid)
	expected := fmt.Sprint(1, -2, 3, 4, "170141183460469231731687303715884105727", true, 1.5, -2.25, "1.25",
		"2020-01-31", "2020-01-31 01:02:03", "2020-01-31T01:02:03.5Z", "ä漢😀", "[1, 2]", false)
	if rows.Next() {
		return errors.New("a second row")
	}
	return errors.Join(equal(found, expected), rows.Err())
}

// lookups makes a table with rows of every type, and reads them by key.
func lookups() {
	db, err := open("root", "parseTime=true")
	if err != nil {
		check("look-ups: open", func() error { return err })
		return
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	table := os.Getenv("DIPPER_LOOKUP_TABLE")
	check("set-up of a table", func() error {
		for _, text := range strings.Split(os.Getenv("DIPPER_LOOKUP_SQL"), ";\n") {
			if strings.TrimSpace(text) == "" {
				continue
			}
			if _, err := db.Exec(text); err != nil {
				return err
			}
		}
		return nil
	})
	check("key look-ups", func() error {
		statement, err := db.Prepare("select * from " + table + " where id = ?")
		if err != nil {
			return err
		}
		defer statement.Close()
		for round := 0; round < 3; round++ {
			var id, big int64
			var boolean bool
			var tiny int8
			var small int16
			var number int32
			var large, decimal, char, varchar, text string
			var float float32
			var double float64
			var date, datetime, micros time.Time
			err := statement.QueryRow(1).Scan(&id, &boolean, &tiny, &small, &number, &big, &large, &float, &double, &decimal,
				&date, &datetime, &micros, &char, &varchar, &text)
			found := fmt.Sprint(id, boolean, tiny, small, number, big, large, float, double, decimal, date.Format(time.DateOnly),
				datetime.Format(time.DateTime), micros.Format(time.RFC3339Nano), char, varchar, text)
			expected := fmt.Sprint(1, true, -128, 32767, -2147483648, int64(9223372036854775807),
				"170141183460469231731687303715884105727", 1.5, -2.25, "-1234567890123456.7891", "2020-01-31",
				"2020-01-31 01:02:03", "2020-01-31T01:02:03.5Z", "abc", "it's ä", "ä漢😀")
			if err := errors.Join(err, equal(found, expected)); err != nil {
				return err
			}
			values := make([]any, 16)
			into := make([]any, len(values))
			for at := range values {
				into[at] = &values[at]
			}
			if err := statement.QueryRow(2).Scan(into...); err != nil {
				return err
			}
			if err := equal(fmt.Sprint(values), fmt.Sprint(append([]any{2}, make([]any, 15)...))); err != nil {
				return err
			}
			if err := statement.QueryRow(3).Scan(into...); !errors.Is(err, sql.ErrNoRows) {
				return fmt.Errorf("expected no row, found %v", err)
			}
		}
		return nil
	})
	check("changes between look-ups", func() error {
		read, err := db.Prepare("select t_int, t_varchar from " + table + " where id = ?")
		if err != nil {
			return err
		}
		defer read.Close()
		for round := 0; round < 2; round++ {
			var number sql.NullInt32
			var text sql.NullString
			_, inserted := db.Exec("insert into "+table+" (id, t_int, t_varchar) values (?, ?, ?)", 7, round, nil)
			first := errors.Join(inserted, read.QueryRow(7).Scan(&number, &text), equal(number.Int32, round), equal(text.Valid, false))
			_, updated := db.Exec("update "+table+" set t_int = ? where id = ?", 10+round, 7)
			second := errors.Join(updated, read.QueryRow(7).Scan(&number, &text), equal(number.Int32, 10+round))
			_, deleted := db.Exec("delete from "+table+" where id = ?", 7)
			if err := errors.Join(first, second, deleted); err != nil {
				return err
			}
			if err := read.QueryRow(7).Scan(&number, &text); !errors.Is(err, sql.ErrNoRows) {
				return fmt.Errorf("expected no row, found %v", err)
			}
		}
		return nil
	})
	check("a prepared SELECT by Exec", func() error {
		statement, err := db.Prepare("select * from " + table + " where id = ?")
		if err != nil {
			return err
		}
		defer statement.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for round := 0; round < 3; round++ {
			if _, err := statement.ExecContext(ctx, 1); err != nil {
				return err
			}
		}
		return nil
	})
	// Definitions of a statement's columns that have changed are seen.
	check("columns that change under a statement", func() error {
		name := table + "_columns"
		for _, text := range []string{
			"drop table if exists " + name,
			"create table " + name + " (k int, v int) unique key (k) distributed by hash (k) buckets 1",
			"insert into " + name + " values (1, 2)",
		} {
			if _, err := db.Exec(text); err != nil {
				return err
			}
		}
		read, err := db.Prepare("select * from " + name + " where k = ?")
		if err != nil {
			return err
		}
		defer read.Close()
		rowIs := func(expected string) error {
			for round := 0; round < 3; round++ {
				rows, err := read.Query(1)
				if err != nil {
					return err
				}
				defer rows.Close()
				names, err := rows.Columns()
				if err != nil {
					return err
				}
				values := make([]any, len(names))
				for i := range values {
					values[i] = new(sql.NullString)
				}
				if !rows.Next() {
					return errors.Join(rows.Err(), errors.New("no row"))
				}
				if err := rows.Scan(values...); err != nil {
					return err
				}
				found := ""
				for i, name := range names {
					found += name + "=" + values[i].(*sql.NullString).String + " "
				}
				if err := errors.Join(rows.Close(), equal(found, expected)); err != nil {
					return err
				}
			}
			return nil
		}
		change := func(text string) error {
			_, err := db.Exec("alter table " + name + " " + text)
			return err
		}
		return errors.Join(
			rowIs("k=1 v=2 "),
			change("add column w varchar(9) default 'w'"),
			rowIs("k=1 v=2 w=w "),
			change("drop column v"),
			rowIs("k=1 w=w "),
		)
	})
}

func common(name, options string) {
	db, err := open("root", "parseTime=true&"+options)
	if err != nil {
		check(name+": open", func() error { return err })
		return
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	sqlText := os.Getenv("DIPPER_TYPES_SQL")
	check(name+": types", func() error { return types(db.Query(sqlText)) })
	check(name+": prepared types", func() error {
		statement, err := db.Prepare(sqlText)
		if err != nil {
			return err
		}
		defer statement.Close()
		return errors.Join(types(statement.Query()), types(statement.Query()))
	})
	check(name+": parameters", func() error {
		var number int64
		var text string
		var null sql.NullString
		var when time.Time
		err := db.QueryRow("select ? + 1, ?", 41, "it's ä").Scan(&number, &text)
		if err != nil {
			return err
		}
		moment := time.Date(2020, 1, 31, 1, 2, 3, 500_000_000, time.UTC)
		var raw string
		err = db.QueryRow("select ?, ?", nil, moment).Scan(&null, &raw)
		if err != nil {
			return err
		}
		when, err = time.Parse("2006-01-02 15:04:05.999999", strings.TrimSuffix(strings.Replace(raw, "T", " ", 1), "Z"))
		return errors.Join(err, equal(fmt.Sprint(number, text, null.Valid), fmt.Sprint(42, "it's ä", false)), equal(when, moment))
	})
	check(name+": error", func() error {
		_, text := db.Query("select * from information_schema.no_such_table")
		_, prepared := db.Prepare("select * from information_schema.no_such_table")
		var one int
		again := db.QueryRow("select 1").Scan(&one)
		return errors.Join(refused(text, 1146, "42S02"), refused(prepared, 1146, "42S02"), again, equal(one, 1))
	})
	check(name+": transaction", func() error {
		transaction, err := db.Begin()
		if err != nil {
			return err
		}
		return errors.Join(transaction.Rollback(), db.Ping())
	})
	check(name+": long text", func() error {
		var text string
		err := db.QueryRow("select repeat('x', 100000)").Scan(&text)
		return errors.Join(err, equal(len(text), 100000))
	})
}

func main() {
	common("plain", "")
	common("compressed", "compress=true")
	if os.Getenv("DIPPER_TLS") == "1" {
		common("TLS", "tls=skip-verify")
	}
	lookups()
	check("wrong password", func() error {
		db, err := open("root:wrong", "")
		if err != nil {
			return err
		}
		defer db.Close()
		return refused(db.Ping(), 1045, "28000")
	})
	check("multi statements", func() error {
		db, err := open("root", "multiStatements=true")
		if err != nil {
			return err
		}
		defer db.Close()
		rows, err := db.Query("select 1; select 2")
		if err != nil {
			return err
		}
		defer rows.Close()
		for expected := 1; expected <= 2; expected++ {
			var found int
			if !rows.Next() {
				return fmt.Errorf("no row in result %d: %v", expected, rows.Err())
			}
			if err := errors.Join(rows.Scan(&found), equal(found, expected)); err != nil {
				return err
			}
			if rows.NextResultSet() != (expected == 1) {
				return fmt.Errorf("wrong number of results after %d", expected)
			}
		}
		return rows.Err()
	})
	if failed > 0 {
		os.Exit(1)
	}
}
