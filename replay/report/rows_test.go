package report

import (
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload"
)

// unfinished is a random workload, some jobs of which had not ended when its trace was written.
func unfinished(t *testing.T, r *rand.Rand) *workload.Workload {
	jobs := make([]workload.Job, 30+r.IntN(40))
	for i := range jobs {
		jobs[i] = workload.Job{ID: fmt.Sprint("j", i), Submit: time.Duration(r.IntN(7200)) * time.Second,
			Duration: time.Duration(60+r.IntN(3000)) * time.Second, GPUs: workload.GPUs(1 << r.IntN(4)),
			Status: []workload.Status{workload.Completed, workload.Failed, workload.Completed, workload.Running,
				workload.Pending}[r.IntN(5)]}
	}
	jobs[0].Status = workload.Completed
	w, err := workload.New("random", time.Unix(0, 0), jobs)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestJobFiles: in the files of an evaluation and of a comparison each job has one row, the one of a job that has not
// ended has no JCT, and every other a JCT of at least the job's own run time.
func TestJobFiles(t *testing.T) {
	fifo, err := schedulers.Find("fifo")
	if err != nil {
		t.Fatal(err)
	}
	sjf, err := schedulers.Find("sjf")
	if err != nil {
		t.Fatal(err)
	}
	other, err := fifo.Space.Parse(fifo.Space.Default(), []string{"backfill=true"})
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(8) {
		draw := rand.New(rand.NewPCG(seed, 1))
		w, cluster := unfinished(t, draw), workload.Uniform(2, 8)
		from := time.Duration(draw.IntN(3000)) * time.Second
		r, err := replay.Run(t.Context(), replay.Options{Trace: w, Cluster: cluster, From: from, To: 2 * time.Hour,
			Warmup: from / 2, Scheduler: fifo, Current: other, Methods: []string{"current", "default"}, Seeds: 1})
		if err != nil {
			t.Fatal(err)
		}
		c, err := replay.Compare(t.Context(), replay.CompareOptions{Trace: w, Cluster: cluster,
			Windows: []replay.Window{{Name: "w", From: from, To: 2 * time.Hour}},
			Rows: []replay.Row{{Name: "a", Scheduler: fifo, Config: other},
				{Name: "b", Scheduler: sjf, Config: sjf.Space.Default()}}})
		if err != nil {
			t.Fatal(err)
		}
		evaluation, comparison := t.TempDir(), t.TempDir()
		if err := Write(r, evaluation); err != nil {
			t.Fatal(err)
		}
		if err := WriteComparison(c, comparison); err != nil {
			t.Fatal(err)
		}
		jobs := w.Window(from, 2*time.Hour).Jobs()
		checkJobs(t, filepath.Join(evaluation, "jobs.csv"), 0, jobs)
		checkJobs(t, filepath.Join(comparison, "jobs.csv"), 1, jobs)
	}
}

// checkJobs checks a file of jobs, whose names are in a column and whose JCTs are in those after it.
func checkJobs(t *testing.T, path string, column int, jobs []workload.Job) {
	t.Helper()
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	rows, err := csv.NewReader(in).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if rows = rows[1:]; len(rows) != len(jobs) {
		t.Fatalf("%d rows of %d jobs", len(rows), len(jobs))
	}
	for i, row := range rows {
		j := &jobs[i]
		if row[column] != j.ID {
			t.Fatalf("row %d is of job %s, want %s", i, row[column], j.ID)
		}
		for _, v := range row[column+1:] {
			if !j.Status.Ended() {
				if v != "" {
					t.Errorf("job %s (%s) has a JCT of %s s", j.ID, j.Status, v)
				}
				continue
			}
			if jct, err := strconv.ParseFloat(v, 64); err != nil || jct < j.Duration.Seconds() {
				t.Errorf("job %s ran %v and has a JCT of %q s", j.ID, j.Duration, v)
			}
		}
	}
}

// TestJobsAround checks the smallest file with a job that runs: it has no JCT, and the jobs after it keep theirs.
func TestJobsAround(t *testing.T) {
	r := tiny()
	for i := range r.Methods {
		r.Methods[i].Rows = named("19", 440., "20", -1., "21", 447.)
	}
	r.Methods = r.Methods[:1]
	dir := t.TempDir()
	if err := Write(r.Report, dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "jobs.csv"))
	if want := "job,default\n19,440\n20,\n21,447\n"; err != nil || string(text) != want {
		t.Errorf("%q (%v), want %q", text, err, want)
	}
}
