package rig

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
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
	var jobs []Job
	err := table(from, 7, func(row []string) error {
		n, err := numbers(row[1:7])
		if err == nil {
			jobs = append(jobs, Job{Name: row[0], At: seconds(n[0]), Queue: "tenant-" + row[2], Priority: int(n[2]),
				Pods: int(n[3]), GPUs: int(n[4]), Run: seconds(n[5])})
		}
		return err
	})
	return jobs, err
}

// ReadRows reads what WriteRows wrote.
func ReadRows(from io.Reader) ([]Row, error) {
	var rows []Row
	err := table(from, 11, func(row []string) error {
		n, err := numbers(row[1:7])
		if err != nil {
			return err
		}
		r := Row{Job: Job{Name: row[0], Queue: "tenant-" + row[1], Priority: int(n[1]), Pods: int(n[2]),
			GPUs: int(n[3]), Run: seconds(n[4])}, Submit: seconds(n[5])}
		for span := range strings.FieldsSeq(row[10]) {
			start, end, _ := strings.Cut(span, "-")
			n, err := numbers([]string{start, end})
			if err != nil {
				return err
			}
			r.Stays = append(r.Stays, Stay{seconds(n[0]), seconds(n[1])})
		}
		if r.Stays == nil {
			return fmt.Errorf("job %s did not run", r.Name)
		}
		rows = append(rows, r)
		return nil
	})
	return rows, err
}

// table calls f for each row of a table with a header and at least the given columns.
func table(from io.Reader, columns int, f func([]string) error) error {
	rows, err := csv.NewReader(from).ReadAll()
	if err != nil {
		return fmt.Errorf("jobs: %w", err)
	}
	for i, row := range rows {
		if i == 0 {
			continue
		}
		if len(row) < columns {
			return fmt.Errorf("jobs: row %d: %d columns, not %d", i, len(row), columns)
		}
		if err := f(row); err != nil {
			return fmt.Errorf("jobs: row %d: %w", i, err)
		}
	}
	return nil
}

func numbers(texts []string) ([]float64, error) {
	var n []float64
	for _, text := range texts {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		n = append(n, x)
	}
	return n, nil
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
	lines := [][]string{{"job", "tenant", "priority", "pods", "gpus", "run_s", "submit_s", "start_s", "end_s", "evictions",
		"spans"}}
	text := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }
	for _, r := range rows {
		var spans []string
		for _, s := range r.Stays {
			spans = append(spans, text(s.Start)+"-"+text(s.End))
		}
		last := r.Stays[len(r.Stays)-1]
		lines = append(lines, []string{r.Name, strings.TrimPrefix(r.Queue, "tenant-"), strconv.Itoa(r.Priority),
			strconv.Itoa(r.Pods), strconv.Itoa(r.GPUs), text(r.Run), text(r.Submit), text(last.Start), text(last.End),
			strconv.Itoa(len(r.Stays) - 1), strings.Join(spans, " ")})
	}
	if err := csv.NewWriter(to).WriteAll(lines); err != nil {
		return fmt.Errorf("jobs: %w", err)
	}
	return nil
}

// A Class is a part of the jobs and their means.
type Class struct {
	Name           string
	Jobs, Evicted  int // jobs, and stays that ended by an eviction
	Wait, P95, JCT time.Duration
}

// Classes are all jobs, by width (below 8 GPUs, and from 8), and by queue.
func Classes(rows []Row) []Class {
	by := map[string][]Row{}
	for _, r := range rows {
		width := "below 8 GPUs"
		if r.Pods*r.GPUs >= 8 {
			width = "from 8 GPUs"
		}
		for _, name := range []string{"all", width, r.Queue} {
			by[name] = append(by[name], r)
		}
	}
	var all []Class
	for _, name := range slices.Sorted(maps.Keys(by)) {
		c := Class{Name: name, Jobs: len(by[name])}
		var waits []time.Duration
		for _, r := range by[name] {
			waits = append(waits, r.Wait())
			c.Wait += r.Wait() / time.Duration(c.Jobs)
			c.JCT += (r.End() - r.Submit) / time.Duration(c.Jobs)
			c.Evicted += len(r.Stays) - 1
		}
		slices.Sort(waits)
		c.P95 = waits[(len(waits)*95+99)/100-1]
		all = append(all, c)
	}
	return all
}
