package trace_test

import (
	"encoding/csv"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// TestImportsRecording: an export of sacct, packed, has the jobs of the run that it is of, as they were recorded beside
// it: with their requests, their waits, and their last start where they were preempted.
func TestImportsRecording(t *testing.T) {
	w, r, err := trace.Open(t.Context(), testshared.Path(t, "golden", "slurm", "sacct", "g.preempt.psv.gz"),
		trace.Options{RequeueRestarts: true})
	if err != nil {
		t.Fatal(err)
	}
	if r.Format != "sacct" || r.Rows != 642 || r.Rejected != 0 || r.LeftOut != 0 {
		t.Errorf("%+v", r)
	}
	f, err := os.Open(testshared.Path(t, "golden", "slurm", "runs", "g.preempt.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	jobs := map[string]workload.Job{}
	for _, j := range w.Jobs() {
		jobs[j.ID] = j
	}
	const before = 337 // jobs of the export before the run
	wait, starts := map[string]int{}, map[string]int{}
	for _, row := range rows[1:] {
		number := func(name string) int {
			n, err := strconv.Atoi(row[column[name]])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		id := strconv.Itoa(before + number("job"))
		if starts[id]++; starts[id] == 1 {
			wait[id] = number("start") - number("submit")
		}
	}
	preempted := 0
	for _, row := range rows[1:] {
		text := func(name string) string { return row[column[name]] }
		number := func(name string) int { n, _ := strconv.Atoi(text(name)); return n } // read before
		id := strconv.Itoa(before + number("job"))
		if number("start_no") < starts[id] {
			preempted++
			continue
		}
		j, there := jobs[id]
		if !there {
			t.Errorf("job %s is missing", id)
			continue
		}
		q := j.Request()
		ran := time.Duration(number("end")-number("start")) * time.Second
		if j.User != text("user") || j.Tenant != text("account") || q.QOS != text("qos") ||
			int(q.NodeCount) != number("nodes") || j.GPUs != workload.GPUs(number("nodes")*number("gpus_per_node")) ||
			q.TimeLimit != time.Duration(number("limit_min"))*time.Minute || j.Duration != max(ran, time.Second) ||
			!j.HasWait || j.Wait != time.Duration(wait[id])*time.Second {
			t.Errorf("%v is imported as %+v %+v", row, j, q)
		}
	}
	if preempted != 3 {
		t.Errorf("%d preemptions", preempted)
	}
}
