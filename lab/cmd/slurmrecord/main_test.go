package main

import (
	"maps"
	"strings"
	"testing"
	"time"
)

// TestSinceBeginning: the times of reservations count from the first submission, and nothing else changes.
func TestSinceBeginning(t *testing.T) {
	began := time.Unix(1795789000, 0)
	const shown = "ReservationName=r1 StartTime=1795789060 EndTime=1795792600 Duration=01:00:00 NodeCnt=16\n" +
		"ReservationName=r2 StartTime=1795788999 EndTime=1795789001 Flags=MAINT\n"
	const want = "ReservationName=r1 StartTime=2000-01-01T00:01:00 EndTime=2000-01-01T01:00:00 Duration=01:00:00 " +
		"NodeCnt=16\n" +
		"ReservationName=r2 StartTime=1999-12-31T23:59:59 EndTime=2000-01-01T00:00:01 Flags=MAINT\n"
	if got := string(sinceBeginning([]byte(shown), began)); got != want {
		t.Errorf("it is\n%s\nwant\n%s", got, want)
	}
}

// TestBadRows: a row that cannot be read is refused with its job and column, before it is submitted.
func TestBadRows(t *testing.T) {
	good := map[string]string{"job": "7", "submit_s": "0", "run_s": "3.2", "nodes": "1", "gpus_per_node": "2",
		"limit_min": "5", "user": "asu01"}
	for column, value := range map[string]string{"submit_s": "x", "run_s": "", "nodes": "one", "gpus_per_node": "",
		"limit_min": "1h", "user": "asu17"} {
		row := maps.Clone(good)
		row[column] = value
		_, err := submit(t.Context(), nil, []map[string]string{row}, "", time.Now())
		if err == nil || !strings.HasPrefix(err.Error(), "job 7: "+column+": ") {
			t.Errorf("%s %q: %v", column, value, err)
		}
	}
}

// TestMultiple: arguments have multiples of a job's GPUs, at most a number.
func TestMultiple(t *testing.T) {
	for argument, want := range map[string]string{"--mem={gpus}G": "--mem=6G", "{gpus*4<64}": "24", "{gpus*24<128}": "128",
		"-c": "-c", "{at}": "{at}"} {
		if got := multiple(argument, 6); got != want {
			t.Errorf("%s: %s, want %s", argument, got, want)
		}
	}
}
