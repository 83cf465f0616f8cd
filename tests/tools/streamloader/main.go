// Loads a file as doris-streamloader does, whose own program no registry has: workers take parts of it from a queue, and each
// part is a PUT without a length, with `Expect: 100-continue` and a label of its own, as it is or in LZ4 frames.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/pierrec/lz4/v4"
)

const (
	rows    = 20000
	workers = 4
	perPart = 1500
)

var address string

// sql sends a statement by the HTTP interface of the server and gives its first value.
func sql(statement string) (string, error) {
	body, _ := json.Marshal(map[string]string{"stmt": statement})
	request, err := http.NewRequest("POST", address+"/api/query/internal/information_schema", strings.NewReader(string(body)))
	if err != nil {
		return "", err
	}
	request.SetBasicAuth("root", "")
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", err
	}
	var found struct {
		Msg  string
		Code int
		Data struct{ Data [][]any }
	}
	if err := json.Unmarshal(text, &found); err != nil {
		return "", fmt.Errorf("%s: %s", statement, text)
	}
	if found.Code != 0 {
		return "", fmt.Errorf("%s: %s", statement, text)
	}
	if len(found.Data.Data) == 0 {
		return "", nil
	}
	return fmt.Sprint(found.Data.Data[0]...), nil
}

// send loads one part through a pipe, and gives how many rows the server took.
func send(table, label, part string, compressed bool) (int, error) {
	reader, writer := io.Pipe()
	go func() {
		var sink io.WriteCloser = writer
		if compressed {
			sink = lz4.NewWriter(writer)
		}
		_, err := io.WriteString(sink, part)
		if compressed && err == nil {
			err = sink.Close()
		}
		writer.CloseWithError(err)
	}()
	request, err := http.NewRequest("PUT", address+"/api/loaded/"+table+"/_stream_load", reader)
	if err != nil {
		return 0, err
	}
	request.SetBasicAuth("root", "")
	for name, value := range map[string]string{
		"Expect": "100-continue", "Content-Type": "text/plain", "label": label, "format": "csv", "column_separator": ",",
		"columns": "id,name,amount",
	} {
		request.Header.Set(name, value)
	}
	if compressed {
		request.Header.Set("Content-Encoding", "lz4")
		request.Header.Set("compress_type", "LZ4")
	}
	client := http.Client{
		Timeout:       time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("redirected") },
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	var found struct {
		Status           string
		NumberLoadedRows int
	}
	if err := json.Unmarshal(text, &found); err != nil || answer.StatusCode != 200 || found.Status != "Success" {
		return 0, fmt.Errorf("part %s: %d %s", label, answer.StatusCode, text)
	}
	return found.NumberLoadedRows, nil
}

// load sends all rows, and compares the table with them.
func load(table string, compressed bool) error {
	for _, statement := range []string{
		"create database if not exists loaded",
		"drop table if exists loaded." + table,
		"create table loaded." + table + " (id bigint, name varchar(50), amount decimal(10, 2)) duplicate key (id) distributed by hash (id) buckets 2",
	} {
		if _, err := sql(statement); err != nil {
			return err
		}
	}
	parts := make(chan string, workers)
	go func() {
		var part strings.Builder
		for id := 0; id < rows; id++ {
			fmt.Fprintf(&part, "%d,name %d,%d.%02d\n", id, id, id, id%100)
			if (id+1)%perPart == 0 || id+1 == rows {
				parts <- part.String()
				part.Reset()
			}
		}
		close(parts)
	}()
	var group sync.WaitGroup
	var lock sync.Mutex
	var loaded int
	var failed error
	stamp := time.Now().UnixNano()
	for worker := 0; worker < workers; worker++ {
		group.Add(1)
		go func(worker int) {
			defer group.Done()
			task := 0
			for part := range parts {
				task++
				taken, err := send(table, fmt.Sprintf("%s_%d_%d_%d", table, stamp, worker, task), part, compressed)
				lock.Lock()
				loaded += taken
				if failed == nil {
					failed = err
				}
				lock.Unlock()
			}
		}(worker)
	}
	group.Wait()
	if failed != nil {
		return failed
	}
	if loaded != rows {
		return fmt.Errorf("%d rows were answered, %d were sent", loaded, rows)
	}
	found, err := sql("select concat_ws('/', count(*), count(distinct name), sum(id), sum(amount)) from loaded." + table)
	if err != nil {
		return err
	}
	var cents int
	for id := 0; id < rows; id++ {
		cents += 100*id + id%100
	}
	wanted := fmt.Sprintf("%d/%d/%d/%d.%02d", rows, rows, rows*(rows-1)/2, cents/100, cents%100)
	if found != wanted {
		return fmt.Errorf("the table has %s, expected %s", found, wanted)
	}
	return nil
}

func main() {
	address = "http://127.0.0.1:" + os.Args[2]
	code := 0
	for _, compressed := range []bool{false, true} {
		name := map[bool]string{false: "plain", true: "lz4"}[compressed]
		if err := load("parts_"+name, compressed); err != nil {
			fmt.Println(err)
			fmt.Println("FAILED", name)
			code = 1
			continue
		}
		fmt.Println("ok", name)
	}
	os.Exit(code)
}
