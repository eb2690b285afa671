package slurmtext_test

import (
	"testing"
	"time"

	"github.com/autosched/autosched/internal/slurmtext"
)

func TestParseSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{"5": 5 * time.Minute, "1:30": 90 * time.Second,
		"2:00:00": 2 * time.Hour, "7-0": 7 * 24 * time.Hour, "1-2:3": 26*time.Hour + 3*time.Minute,
		"7-00:00:10": 7*24*time.Hour + 10*time.Second, "0": 0} {
		if got, err := slurmtext.ParseSpan(text); err != nil || got != want {
			t.Errorf("%q is %v (%v), want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "x", "1:2:3:4", "1-", "1--2", "99999999999", "2147483647-0"} {
		if got, err := slurmtext.ParseSpan(text); err == nil {
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
}
