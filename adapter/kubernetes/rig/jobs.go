package rig

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Job is a gang of equal pods.
type Job struct {
	Name     string
	At       time.Duration // since the run's beginning
	Queue    string
	Priority int
	Pods     int
	GPUs     int // of each pod
	Run      time.Duration
}

// A Stay is a time that a job held its GPUs, since the run's beginning.
type Stay struct{ Start, End time.Duration }

// A Row is the record of a job that ran. All its stays but the last ended by an eviction.
type Row struct {
	Job
	Submit time.Duration
	Stays  []Stay
}

// End is when the job was finished.
func (r Row) End() time.Duration { return r.Stays[len(r.Stays)-1].End }

// Wait is the time that the job took beyond its own run.
func (r Row) Wait() time.Duration { return r.End() - r.Submit - r.Run }

// ReadJobs reads rows of job, at_s, tenant, priority, pods, gpus, run_s with a header. Tenant i uses queue tenant-i.
func ReadJobs(from io.Reader) ([]Job, error) {
	rows, err := csv.NewReader(from).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	var jobs []Job
	for i, row := range rows {
		if i == 0 {
			continue
		}
		if len(row) < 7 {
			return nil, fmt.Errorf("jobs: row %d: %d columns", i, len(row))
		}
		var n [6]float64
		for k, text := range row[1:7] {
			if n[k], err = strconv.ParseFloat(text, 64); err != nil {
				return nil, fmt.Errorf("jobs: row %d: %w", i, err)
			}
		}
		jobs = append(jobs, Job{Name: row[0], At: seconds(n[0]), Queue: "tenant-" + row[2], Priority: int(n[2]),
			Pods: int(n[3]), GPUs: int(n[4]), Run: seconds(n[5])})
	}
	return jobs, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Jitter moves each job's submission by up to the given time, either way, and sorts the jobs by it.
func Jitter(jobs []Job, by time.Duration, seed uint64) []Job {
	rng := rand.New(rand.NewPCG(seed, 0))
	moved := slices.Clone(jobs)
	for i := range moved {
		moved[i].At = max(0, moved[i].At+time.Duration((2*rng.Float64()-1)*float64(by)))
	}
	slices.SortStableFunc(moved, func(a, b Job) int { return cmp.Compare(a.At, b.At) })
	return moved
}

// WriteRows writes rows in the order of submission: job, tenant, priority, pods, gpus, run_s, submit_s, start_s, end_s,
// evictions, spans.
func WriteRows(to io.Writer, rows []Row) error {
	table := [][]string{{"job", "tenant", "priority", "pods", "gpus", "run_s", "submit_s", "start_s", "end_s", "evictions",
		"spans"}}
	text := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }
	for _, r := range rows {
		var spans []string
		for _, s := range r.Stays {
			spans = append(spans, text(s.Start)+"-"+text(s.End))
		}
		last := r.Stays[len(r.Stays)-1]
		table = append(table, []string{r.Name, strings.TrimPrefix(r.Queue, "tenant-"), strconv.Itoa(r.Priority),
			strconv.Itoa(r.Pods), strconv.Itoa(r.GPUs), text(r.Run), text(r.Submit), text(last.Start), text(last.End),
			strconv.Itoa(len(r.Stays) - 1), strings.Join(spans, " ")})
	}
	if err := csv.NewWriter(to).WriteAll(table); err != nil {
		return fmt.Errorf("jobs: %w", err)
	}
	return nil
}
