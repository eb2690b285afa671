package slurm

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/autosched/autosched/internal/slurmtext"
)

// spent is the processor time of a function.
func spent(t *testing.T, f func()) time.Duration {
	t.Helper()
	now := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := now()
	f()
	return now() - before
}

// TestScale: a first poll of a large site and a long queue take seconds of a processor. Work that grows with the square
// of the rows takes minutes.
func TestScale(t *testing.T) {
	const jobs, most = 40_000, 10 * time.Second
	listing, err := slurmtext.NewListing(strings.NewReader(strings.Repeat("x", 16)), columns...)
	if err != nil {
		t.Fatal(err)
	}
	args := listing.Args()
	delimiter := strings.TrimPrefix(args[2], "--delimiter=")
	var text, queue strings.Builder
	for i := range jobs {
		text.WriteString(strings.ReplaceAll(listedRow(i+1, "COMPLETED", int64(1000+i), fmt.Sprint(1100+i), "",
			"cpu=8,gres/gpu=2,mem=1G,node=1", "job"), "|", delimiter))
	}
	for i := range 300 {
		fmt.Fprintf(&queue, "%d_[1-100%%10]|PD|Priority\n", jobs+i)
	}
	var records []slurmtext.Record
	var rows []row
	parsed := spent(t, func() {
		records, _ = listing.Rows(text.String())
		rows, _ = rowsOf(records, 0)
	})
	for i := range rows {
		rows[i].end = rows[i].start.Add(time.Minute)
	}
	var reasons map[string]string
	waiting := spent(t, func() { reasons = reasonsOf(queue.String()) })
	c := &tracker{Cluster: "c"}
	n := 0
	tracked := spent(t, func() {
		events, _ := c.apply(rows, reasons, time.Unix(1e6, 0))
		n = len(events)
	})
	again := spent(t, func() { c.apply(rows, reasons, time.Unix(1e6, 0)) })
	t.Logf("%d rows: parsed in %v, tracked in %v, and again in %v; %d waiting tasks in %v of processor time", jobs,
		parsed, tracked, again, len(reasons), waiting)
	if len(rows) != jobs || n != 3*jobs || len(reasons) != 30_000 {
		t.Fatalf("%d rows, %d events, %d reasons", len(rows), n, len(reasons))
	}
	if total := parsed + tracked + again + waiting; total > most {
		t.Errorf("%v", total)
	}
}

// TestWeek: polls of 30,000 jobs a day, each of ten minutes, are within a minute of a processor in a week, the file of
// the state included.
func TestWeek(t *testing.T) {
	hours, slack := 1, 10.
	if os.Getenv("AUTOSCHED_SLURM") == "full" {
		hours, slack = 7*24, 1
	}
	const between, ran, poll = 86_400 / 30_000., 600, 30
	listing, err := slurmtext.NewListing(strings.NewReader(strings.Repeat("x", 16)), columns...)
	if err != nil {
		t.Fatal(err)
	}
	delimiter := strings.TrimPrefix(listing.Args()[2], "--delimiter=")
	p := &Poller{Dir: t.TempDir()}
	if err := p.Open(); err != nil {
		t.Fatal(err)
	}
	p.state.Cluster, p.state.drained = "c", true
	events, total := 0, time.Duration(0)
	for now := poll; now <= hours*3600; now += poll {
		var text strings.Builder
		from := max(0, int(float64(now-ran-int(overlap.Seconds()))/between))
		for i := from; i <= int(float64(now)/between); i++ {
			start := int64(1e6 + float64(i)*between)
			row := listedRow(i+1, "RUNNING", start, fmt.Sprint(start), "", "cpu=8,gres/gpu=2,mem=1G,node=1", "job")
			if end := start + ran; end <= int64(1e6+now) {
				row = strings.Replace(strings.Replace(row, "RUNNING", "COMPLETED", 1), "Unknown", fmt.Sprint(end), 1)
			}
			text.WriteString(strings.ReplaceAll(row, "|", delimiter))
		}
		total += spent(t, func() {
			records, _ := listing.Rows(text.String())
			rows, _ := rowsOf(records, 0)
			at := time.Unix(int64(1e6+now), 0)
			new, _ := p.state.apply(rows, nil, at)
			events += len(new)
			p.state.Since = at
			p.state.forget(at.Add(-2 * overlap))
			err = p.save()
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d hours: %d events, %v of processor time", hours, events, total)
	if jobs := float64(hours*3600) / between; float64(events) < 2.4*jobs || float64(events) > 3*jobs+3 {
		t.Errorf("%d events of %.0f jobs", events, jobs)
	}
	if most := time.Duration(slack * float64(hours) / (7 * 24) * 60 * float64(time.Second)); total > most {
		t.Errorf("%v, at most %v", total, most)
	}
}
