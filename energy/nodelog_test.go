package energy

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
)

const nodeLog = "time,unix,active,total\n2024-03-30T00:00:00Z,0,5,10\n2024-03-30T00:10:00Z,0,8,10\n" +
	"2024-03-30T00:20:00Z,0,4,10\n2024-03-30T00:30:00Z,0,4,10\n2024-03-30T00:40:00Z,0,0,0\n" +
	"2024-03-30T00:50:00Z,0,6,10\n"

// TestNodeLog: by hand, with delays of one and two rows, with a spare node, and an outage of the log.
func TestNodeLog(t *testing.T) {
	l, err := ReadNodeLog(strings.NewReader(nodeLog), "n.csv", time.UTC)
	if err != nil || l.Unknown != 1 {
		t.Fatal(l, err)
	}
	as := constant(t, `  pue: {low: 1, middle: 1, high: 1, source: given}
  asleep: {low: 0, middle: 10, high: 10, source: given}
  waking: {low: 0, middle: 60, high: 60, source: given}
  wake_time: {low: 600, middle: 600, high: 600, source: given}
gpus:
  flat: {idle: 100, max: 300, source: given}
`)
	for _, c := range []struct {
		after       time.Duration
		spare       int
		asleep      float64 // nodes times rows
		wakes, late int
	}{
		{time.Second, 0, 5 + 2 + 2 + 6 + 4, 3 + 2, 3 + 2},
		{10 * time.Minute, 0, 5 + 2 + 2 + 6 + 4, 3 + 2, 3 + 2},
		{11 * time.Minute, 0, 5 + 2 + 2 + 2 + 4, 3, 3},
		{time.Hour, 0, 5 + 2 + 2 + 2 + 2, 3, 3},
		{time.Second, 1, 4 + 1 + 1 + 5 + 3, 3 + 2, 2 + 1},
	} {
		x, err := l.Sleep(as, SleepPlan{c.after, c.spare, 2}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if x.WakeUps != c.wakes || x.Late != c.late || math.Abs(x.Asleep*5-c.asleep) > 1e-9 || x.Days*24*6 != 5 {
			t.Errorf("%v, %d spare: %+v", c.after, c.spare, x)
		}
		near(t, "saved", x.Saved.Energy.Middle, (190*c.asleep-60*float64(c.wakes))/6000, 1e-9)
		near(t, "idle", x.Idle.Energy.Middle, 200*(5+2+6+6+4)/6000., 1e-9)
	}
	if _, err := l.Sleep(as, SleepPlan{0, 0, 2}, nil, nil); err == nil {
		t.Error("nodes sleep after nothing")
	}
	for text, want := range map[string]string{
		"":                                               "is empty",
		"time,active\n":                                  "n.csv: 1: want the columns",
		"time,active,total\n":                            "want two rows",
		"time,active,total\n0":                           "n.csv",
		"time,active,total\nnoon,1,2\n":                  "n.csv: 2: time",
		"time,active,total\n0,x,2\n":                     "n.csv: 2: active",
		"time,active,total\n0,1,-2\n":                    "n.csv: 2: total",
		"time,active,total\n0,x,-2\n":                    "n.csv: 2: active",
		"time,active,total\n0,3,2\n":                     "n.csv: 2: active: 3 nodes of 2",
		"time,active,total\n600,1,2\n600,1,2\n":          "n.csv: 3: time: 600 is not after",
		"time,active,total\n600,0,2\n1200,0,2\n1800,0,0": "one with active nodes",
	} {
		if _, err := ReadNodeLog(strings.NewReader(text), "n.csv", time.UTC); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// FuzzNodeLog: an accepted log can be replayed, and no busy node sleeps.
func FuzzNodeLog(f *testing.F) {
	f.Add(nodeLog, int64(600), 1)
	f.Add("time,active,total\n0,1,2\n1e9,2,2\n", int64(1), 0)
	f.Fuzz(func(t *testing.T, text string, after int64, spare int) {
		l, err := ReadNodeLog(strings.NewReader(text), "n.csv", time.UTC)
		if err != nil || after <= 0 || spare < 0 || spare > mostNodes {
			return
		}
		x, err := l.Sleep(Default(), SleepPlan{time.Duration(after), spare, 8}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !(x.Asleep >= -1e-9 && x.Asleep <= x.Total-x.Active+1e-6*x.Total) || x.Late > x.WakeUps ||
			x.Saved.Energy.Middle > x.Idle.Energy.Middle*(1+1e-9) {
			t.Fatalf("%+v", x)
		}
	})
}

// TestPhillyNodeLog: on the public log, sleeping after an hour saves most of the energy of idle nodes, and spare nodes
// leave fewer late wake-ups.
func TestPhillyNodeLog(t *testing.T) {
	in := testshared.Open(t, "traces/philly/active_nodes_10min.csv.gz")
	l, err := ReadNodeLog(in, "philly", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	hour, err := l.Sleep(Default(), SleepPlan{time.Hour, 0, 8}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	spare, err := l.Sleep(Default(), SleepPlan{time.Hour, 20, 8}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s := hour.Saved.Energy.Middle / hour.Idle.Energy.Middle; l.Unknown != 109 || s < .6 || s > .95 ||
		spare.Late*4 > hour.Late || spare.Saved.Energy.Middle >= hour.Saved.Energy.Middle {
		t.Errorf("%d unknown; saved %.2f of idle; %+v, with spare nodes %+v", l.Unknown, s, hour, spare)
	}
}
