package slurm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestControllerClock: events, snapshots and listings have slurmctld's time, be this machine's an hour ahead of it or
// behind, also while slurmctld is away.
func TestControllerClock(t *testing.T) {
	f := newFakeAccounting(t)
	f.write("bin/sdiag", "#!/bin/sh\n[ -s \""+f.dir+"/sdiag\" ] && cat \""+f.dir+"/sdiag\"\n")
	f.write("bin/squeue", "#!/bin/sh\ncat \""+f.dir+"/reasons\"\n")
	f.write("bin/sacct", "#!/bin/sh\necho \"$@\" >\""+f.dir+"/asked\"\ncat \""+f.dir+"/rows\"\n")
	for _, skew := range []time.Duration{-time.Hour, time.Hour} {
		at := time.Now().Add(skew).Truncate(time.Second)
		f.write("rows", fmt.Sprintf("%s7|7|job|u|a|p|q|PENDING|%d|%[2]d|None|Unknown|0|10|gres/gpu=1||1||1|00:00:00\n",
			columnsHead, at.Unix()-60))
		says := func(now time.Time, reason string) {
			f.write("sdiag", fmt.Sprintf("sdiag output at now (%d)\n", now.Unix()))
			f.write("reasons", "7|"+reason+"\n")
		}
		p := &Poller{Dir: filepath.Join(t.TempDir(), "state"), History: time.Hour}
		if err := p.Open(); err != nil {
			t.Fatal(err)
		}
		look := func(want string) {
			t.Helper()
			events, _, next, err := p.look(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p.state.Since = next
			var got []string
			for _, e := range events {
				got = append(got, fmt.Sprint(e.Kind, " ", e.SchedulerTime.AsTime().Sub(at)))
			}
			if strings.Join(got, ", ") != want {
				t.Errorf("%v: %v, want %s", skew, got, want)
			}
		}
		says(at, "JobHeldUser")
		look("HEARTBEAT -1h0m0s, HEARTBEAT -5s")
		asked, err := os.ReadFile(filepath.Join(f.dir, "asked"))
		want := fmt.Sprint("-S uts", at.Add(-time.Hour).Unix())
		if err != nil || !strings.Contains(string(asked), want) {
			t.Errorf("%v: sacct %s (%v), want %s", skew, asked, err, want)
		}
		says(at.Add(10*time.Second), "Priority")
		look("SUBMITTED 10s, HEARTBEAT 5s")
		for _, is := range []struct {
			what string
			at   time.Time
		}{{"a snapshot", p.state.snapshot(p.seen).SchedulerTime.AsTime()}, {"now", p.Now()}} {
			if off := is.at.Sub(at.Add(10 * time.Second)).Abs(); off > 5*time.Second {
				t.Errorf("%v: %s is %v off", skew, is.what, off)
			}
		}
		f.write("sdiag", "") // slurmctld is away
		look("")
		if off := p.seen.Sub(at).Abs(); off > time.Minute {
			t.Errorf("%v: while slurmctld is away a poll is %v off", skew, off)
		}
	}
}
