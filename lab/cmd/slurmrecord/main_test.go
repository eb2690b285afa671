package main

import (
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
