package trace

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

// A deadline counts from the same zero as the submission; none is 0.
func TestReadDeadlines(t *testing.T) {
	const rows = "job_id,submit_time,duration_s,gpus,deadline\n" +
		"a,2020-01-01T01:00:00Z,9,1,2020-01-01T02:00:00Z\n" +
		"b,2020-01-01T01:00:00Z,9,1,\n" +
		"c,2020-01-01T01:00:00Z,9,1,2020-01-01T00:00:00Z\n"
	for name, zero := range map[string]string{"found": "",
		"named": "# autosched trace v1 zero=2020-01-01T00:00:00Z\n"} {
		w, _, err := Read(t.Context(), strings.NewReader(zero+rows), "t.csv", Options{Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []time.Duration{2 * time.Hour, 0, 1} {
			if got := w.Jobs()[i].Deadline; got != want {
				t.Errorf("zero %s: deadline of %s is %v, want %v", name, w.Jobs()[i].ID, got, want)
			}
		}
	}
	_, r, err := Read(t.Context(), strings.NewReader(rows+"d,2020-01-01T01:00:00Z,9,1,soon\n"), "t.csv", Options{})
	if err != nil || r.Rejected != 1 || r.First[0].Field != "deadline" {
		t.Errorf("a deadline that is no time: %+v, %v", r, err)
	}
}

// A deadline changes the digest and the file; without any, both are as
// if deadlines did not exist.
func TestDeadlineIsContent(t *testing.T) {
	digest := map[string]bool{}
	for _, deadlines := range [][2]time.Duration{{0, 0}, {time.Hour, 0}, {0, time.Hour}, {time.Hour, time.Hour},
		{time.Minute, 0}} {
		jobs := []workload.Job{{ID: "a", Duration: 1, GPUs: 1, Deadline: deadlines[0]},
			{ID: "b", Duration: 1, GPUs: 1, Deadline: deadlines[1]}}
		w, err := workload.New("t", time.Unix(0, 0), jobs)
		if err != nil {
			t.Fatal(err)
		}
		digest[w.Digest()] = true
		var csv bytes.Buffer
		if err := WriteCSV(&csv, w); err != nil {
			t.Fatal(err)
		}
		if has := strings.Contains(csv.String(), "deadline"); has != (deadlines != [2]time.Duration{}) {
			t.Errorf("%v: %s", deadlines, csv.String())
		}
	}
	if len(digest) != 5 {
		t.Errorf("%d digests of 5 workloads", len(digest))
	}
	late := workload.Job{ID: "a", Duration: 1, GPUs: 1, Deadline: workload.MaxSubmit + 1}
	if err := late.Validate(); err == nil || !strings.Contains(err.Error(), "deadline") {
		t.Errorf("a deadline in the far future: %v", err)
	}
}
