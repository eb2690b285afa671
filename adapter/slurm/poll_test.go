package slurm

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sacct makes a sacct that prints the file rows, in which bars stand for its delimiter.
func (f *fakeAccounting) sacct() {
	f.write("bin/sacct", `#!/bin/sh
echo "$@" >"`+f.dir+`/asked"
for a; do case $a in --delimiter=*) d=${a#--delimiter=} ;; esac; done
sed "s/|/$d/g; s/BAR/|/g" "`+f.dir+`/rows"
`)
}

// listedRow is a row in the order of columns, with the name of the job last.
func listedRow(id int, state string, submit int64, start, requested, allocated, name string) string {
	return fmt.Sprintf("c|%d|%[1]d|%[1]d|u|a|p|q|%s|%d|%[3]d|%s|Unknown|0|10|%s|%s|1|g1|00:00:00|%s\n", id, state,
		submit, start, requested, allocated, name)
}

// TestHostileNames: names of jobs with newlines, bars and quotes forge no row and hide none.
func TestHostileNames(t *testing.T) {
	f := newFakeAccounting(t)
	f.sacct()
	forged := strings.ReplaceAll(listedRow(4, "COMPLETED", 1000, "1001", "", "gres/gpu=8", "x"), "|", "BAR")
	names := []string{"x\n" + strings.TrimSuffix(forged, "\n"), "aBARbBAR", `it's "quoted" \n`, "\n\n", ""}
	text := ""
	for i, name := range names {
		text += listedRow(i+1, "RUNNING", 1000, "1010", "", "gres/gpu=2", name)
	}
	f.write("rows", text+"c|9|9\n")
	rows, faults, err := Commands{}.accounting(t.Context(), "c", time.Unix(900, 0), 0)
	if err != nil || len(faults) != 1 || len(rows) != len(names) {
		t.Fatalf("%d rows, %v, %v", len(rows), faults, err)
	}
	for i, r := range rows {
		want := nameOf(strings.ReplaceAll(names[i], "BAR", "|"))
		if r.Name != want || r.db != uint64(i+1) || r.GPUs != 2000 ||
			r.state.Name != "RUNNING" || !r.end.IsZero() {
			t.Errorf("%q: %+v", want, r)
		}
	}
	for name, want := range map[string]string{strings.Repeat("ä", 70): strings.Repeat("ä", 64), "a\xff\xfeb": "a?b",
		strings.Repeat("x", 127) + "ä": strings.Repeat("x", 127) + "?"} {
		if got := nameOf(name); got != want || len(got) > maxName {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
	asked := func() string {
		text, err := os.ReadFile(filepath.Join(f.dir, "asked"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	first := asked()
	if _, _, err := (Commands{}).accounting(t.Context(), "c", time.Unix(900, 0), 0); err != nil || asked() == first {
		t.Errorf("%v: the delimiter of two calls is that of %s", err, first)
	}
}

// TestControllerClock: events, snapshots and listings have slurmctld's time, be this machine's an hour ahead of it or
// behind, also while slurmctld is away.
func TestControllerClock(t *testing.T) {
	f := newFakeAccounting(t)
	f.write("bin/sdiag", "#!/bin/sh\n[ -s \""+f.dir+"/sdiag\" ] && cat \""+f.dir+"/sdiag\"\n")
	f.write("bin/squeue", "#!/bin/sh\ncat \""+f.dir+"/reasons\"\n")
	f.sacct()
	for _, skew := range []time.Duration{-time.Hour, time.Hour} {
		at := time.Now().Add(skew).Truncate(time.Second)
		f.write("rows", listedRow(7, "PENDING", at.Unix()-60, "None", "gres/gpu=1", "", "job"))
		says := func(now time.Time, reason string) {
			f.write("sdiag", fmt.Sprintf("sdiag output at now (%d)\n", now.Unix()))
			f.write("reasons", "7|PD|"+reason+"\n")
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
			if off := is.at.Sub(at.Add(10 * time.Second)).Abs(); off > 10*time.Minute {
				t.Errorf("%v: %s is %v off", skew, is.what, off)
			}
		}
		f.write("sdiag", "") // slurmctld is away
		look("")
		if off := p.seen.Sub(at).Abs(); off > 10*time.Minute {
			t.Errorf("%v: while slurmctld is away a poll is %v off", skew, off)
		}
	}
}

// TestSavedState: what polls append to the file is the state after a start, also where the last of it is cut off, and
// the file does not outgrow the state.
func TestSavedState(t *testing.T) {
	dir := t.TempDir()
	open := func() *Poller {
		p := &Poller{Dir: dir}
		if err := p.Open(); err != nil {
			t.Fatal(err)
		}
		return p
	}
	text := func(p *Poller) string {
		out, err := json.Marshal(&p.state)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	p := open()
	p.state.Cluster = "c"
	p.state.applyNodes([]node{{"g1", 8, "up"}}, nil, time.Unix(1, 0))
	appended := 0
	for i := range 400 {
		now := time.Unix(int64(1000+i), 0).UTC()
		rows := []row{{key: fmt.Sprint(i), db: uint64(i), submit: now, eligible: now,
			description: description{GPUs: 1000}}}
		if i > 0 { // the one before starts and ends
			rows = append(rows, row{key: fmt.Sprint(i - 1), db: uint64(i - 1), submit: now, eligible: now, start: now,
				end: now, description: description{GPUs: 1000}})
		}
		p.state.apply(rows, map[string]string{fmt.Sprint(i): "Priority"}, now)
		p.state.forget(now.Add(-20 * time.Second))
		p.state.Since = now
		if err := p.save(); err != nil {
			t.Fatal(err)
		}
		if p.added > 0 {
			appended++
		}
		if i%37 == 0 {
			again := open()
			if text(again) != text(p) {
				t.Fatalf("after %d polls the file has\n%s\nwant\n%s", i, text(again), text(p))
			}
		}
	}
	if appended < 300 {
		t.Errorf("%d of 400 polls append", appended)
	}
	info, err := os.Stat(p.path())
	if err != nil || info.Size() > int64(3*p.whole) {
		t.Errorf("%v (%v), of %d bytes", info.Size(), err, p.whole)
	}
	// A poll that ends while it writes counts as none.
	before := text(p)
	p.state.Since = time.Unix(9000, 0).UTC()
	if err := p.save(); err != nil {
		t.Fatal(err)
	}
	if p.added == 0 {
		t.Fatal("the last poll did not append")
	}
	if info, err = os.Stat(p.path()); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(p.path(), info.Size()-5); err != nil {
		t.Fatal(err)
	}
	again := open()
	if text(again) != before {
		t.Errorf("cut off: %s, want %s", text(again), before)
	}
	if err := again.save(); err != nil || again.whole == 0 || text(open()) != before {
		t.Errorf("it is not written anew: %v", err)
	}
}
