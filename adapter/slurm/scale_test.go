package slurm

import (
	"fmt"
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
