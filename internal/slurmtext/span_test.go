package slurmtext_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

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

// written is a span as secs2time_str writes it.
func written(d time.Duration) string {
	n := int64(d / time.Second)
	text := fmt.Sprintf("%02d:%02d:%02d", n/3600%24, n/60%60, n%60)
	if n >= 86400 {
		text = fmt.Sprintf("%d-%s", n/86400, text)
	}
	return text
}

// TestSpansAsWritten: what Slurm writes of a span is read as the span, by each reader.
func TestSpansAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := time.Duration(rapid.Int64Range(0, 9*365*86400).Draw(t, "seconds")) * time.Second
		for name, parse := range map[string]func(string) (time.Duration, error){"span": slurmtext.ParseSpan,
			"elapsed": slurmtext.ParseElapsed, "limit": slurmtext.ParseLimit} {
			if got, err := parse(written(want)); err != nil || got != want {
				t.Errorf("%s %s is %v (%v), want %v", name, written(want), got, err, want)
			}
		}
		minutes := want / time.Minute
		if got, err := slurmtext.ParseLimit(fmt.Sprint(int64(minutes))); err != nil || got != minutes*time.Minute {
			t.Errorf("a limit of %d minutes is %v (%v)", minutes, got, err)
		}
	})
}

func TestParseLimit(t *testing.T) {
	for text, want := range map[string]time.Duration{"UNLIMITED": 0, "Partition_Limit": 0, "": 0, "INVALID": 0, "-1": 0,
		"N/A": 0, "NONE": 0, "infinite": 0, "10": 10 * time.Minute, "1-0": 24 * time.Hour, "4294967295": 0,
		"5257000": 0, "99999999999999": 0, "20000-0": 0, "2-00:00:00": 48 * time.Hour} {
		if got, err := slurmtext.ParseLimit(text); err != nil || got != want {
			t.Errorf("%q is %v (%v), want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"x", "1:2:3:4", "-5", "10m"} {
		if got, err := slurmtext.ParseLimit(text); err == nil {
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
	for _, text := range []string{"90", "1:30", "1-2", "a:b:c"} {
		if got, err := slurmtext.ParseElapsed(text); err == nil {
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
}

// TestParseJobState has all states of job_state_string, some cut off or with what follows them.
func TestParseJobState(t *testing.T) {
	for outcome, texts := range map[slurmtext.Outcome]string{
		slurmtext.Completed:   "COMPLETED|COMPLETED,COMPLETING|COMPLETED+",
		slurmtext.Cancelled:   "CANCELLED|CANCELLED by 1000|CANCELLED+|PREEMPTED|REVOKED",
		slurmtext.Failed:      "FAILED|NODE_FAIL|BOOT_FAIL|DEADLINE|LAUNCH_FAILED",
		slurmtext.TimedOut:    "TIMEOUT",
		slurmtext.OutOfMemory: "OUT_OF_MEMORY|OUT_OF_ME+",
	} {
		for text := range strings.SplitSeq(texts, "|") {
			if s := slurmtext.ParseJobState(text); s.Outcome != outcome || !s.Ended {
				t.Errorf("%q: %+v", text, s)
			}
		}
	}
	for text, ended := range map[string]bool{"PENDING": false, "RUNNING": false, "RUNNING,COMPLETING": false,
		"SUSPENDED": false, "REQUEUED": false, "RESIZING": false, "COMPLETING": false, "NEW": true, "": true} {
		name, _, _ := strings.Cut(text, ",")
		s := slurmtext.ParseJobState(text)
		if s.Ended != ended || s.Outcome != slurmtext.Undetermined || s.Name != name {
			t.Errorf("%q: %+v", text, s)
		}
	}
}

// TestParseNodeState: parts count by themselves, so that a node that is powered down is none that is down.
func TestParseNodeState(t *testing.T) {
	for state, texts := range map[slurmtext.NodeState]string{
		slurmtext.Up: "IDLE|ALLOCATED|MIXED+PLANNED|idle|IDLE~|MIXED#|IDLE+CLOUD+POWERED_DOWN|" +
			"IDLE+POWERING_DOWN|IDLE+POWER_DOWN+RESERVED|ALLOCATED+COMPLETING|IDLE+DYNAMIC_NORM|MIXED-",
		slurmtext.Draining: "IDLE+DRAIN|ALLOCATED+DRAIN|DRAINED*|DRAINING@|MAINT|IDLE+MAINTENANCE|INVAL|" +
			"IDLE+INVALID_REG",
		slurmtext.Down: "DOWN|DOWN*|DOWN+DRAIN|IDLE+DRAIN+NOT_RESPONDING|ERROR|UNKNOWN|FAIL|FAILING*|" +
			"DRAIN+DOWN+POWERED_DOWN",
		slurmtext.Future: "FUTURE|IDLE+DYNAMIC_FUTURE|DOWN+FUTURE",
	} {
		for text := range strings.SplitSeq(texts, "|") {
			if got := slurmtext.ParseNodeState(text); got != state {
				t.Errorf("%q is %d, want %d", text, got, state)
			}
		}
	}
}
