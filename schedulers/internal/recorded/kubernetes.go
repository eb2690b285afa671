package recorded

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// KubernetesRun is a recording of Kueue or Volcano, runs/<scheduler>.<...>.csv with a row per job.
type KubernetesRun struct {
	// Jobs are in order of submission; tenant i has the queue tenant-i. Evictions lose their progress.
	Jobs []workload.Job
	// Pods are the numbers of pods of the jobs.
	Pods []int
	Means
}

// Means of a run, by class of jobs: all, <8, >=8 (GPUs), and each tenant.
type Means struct {
	Wait      map[string]float64 // seconds that jobs took beyond their run times
	Evictions float64            // of all jobs
}

// ReadKubernetes reads a recording.
func ReadKubernetes(file string) (*KubernetesRun, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	slices.SortStableFunc(rows[1:], func(a, b []string) int {
		x, _ := strconv.ParseFloat(a[slices.Index(rows[0], "submit_s")], 64)
		y, _ := strconv.ParseFloat(b[slices.Index(rows[0], "submit_s")], 64)
		return int(1000*x) - int(1000*y)
	})
	r := &KubernetesRun{}
	ends, evictions := make([]time.Duration, len(rows)-1), 0
	var bad error
	for i, row := range rows[1:] {
		number := func(name string) float64 {
			v, err := strconv.ParseFloat(row[slices.Index(rows[0], name)], 64)
			if err != nil {
				bad = fmt.Errorf("%s: job %s: %s: %w", file, row[0], name, err)
			}
			return v
		}
		at := func(name string) time.Duration {
			return time.Duration(math.Round(1e3*number(name))) * time.Millisecond
		}
		asks := workload.Request{Priority: int64(number("priority")), Requeue: workload.RequeueRestarts}
		pods := int(number("pods"))
		r.Pods = append(r.Pods, pods)
		r.Jobs = append(r.Jobs, workload.Job{ID: row[0], Tenant: fmt.Sprintf("tenant-%.0f", number("tenant")),
			GPUs: workload.GPUs(pods * int(number("gpus"))), Submit: at("submit_s"), Duration: at("run_s"),
			Requested: asks.Shared()})
		ends[i] = at("end_s")
		evictions += strings.Count(row[slices.Index(rows[0], "spans")], " ")
	}
	r.Means = r.means(func(i int) time.Duration { return ends[i] }, evictions)
	return r, bad
}

// means returns those of a run by the ends of its jobs.
func (r *KubernetesRun) means(end func(int) time.Duration, evictions int) Means {
	m, jobs := Means{Wait: map[string]float64{}, Evictions: float64(evictions)}, map[string]float64{}
	for i := range r.Jobs {
		j := &r.Jobs[i]
		width := "<8"
		if j.GPUs >= workload.GPUs(8) {
			width = ">=8"
		}
		for _, class := range []string{"all", width, j.Tenant} {
			m.Wait[class] += (end(i) - j.Submit - j.Duration).Seconds()
			jobs[class]++
		}
	}
	for class, n := range jobs {
		m.Wait[class] /= n
	}
	return m
}

// Of returns the means of a simulation of the jobs that has ended.
func (r *KubernetesRun) Of(sim *simulator.Sim) Means {
	ends, evictions := make([]time.Duration, len(r.Jobs)), 0
	for _, o := range sim.Outcomes(nil) {
		ends[o.ID], evictions = o.End, evictions+o.Preemptions
	}
	return r.means(func(i int) time.Duration { return ends[i] }, evictions)
}

// MeanOf returns the means over draws.
func MeanOf(draws []Means) Means {
	m := Means{Wait: map[string]float64{}}
	for _, d := range draws {
		m.Evictions += d.Evictions / float64(len(draws))
		for class, wait := range d.Wait {
			m.Wait[class] += wait / float64(len(draws))
		}
	}
	return m
}

// Beyond lists in which a simulation is too far from the recording: the mean wait of all jobs beyond 15 % and 1 s, that
// of a class beyond 20 % and 2 s, the evictions beyond 30 % and 2.
func (m Means) Beyond(simulated Means) []string {
	var out []string
	for class, want := range m.Wait {
		share, most := .20, 2.0
		if class == "all" {
			share, most = .15, 1
		}
		if got := simulated.Wait[class]; math.Abs(got-want) > max(share*want, most) {
			out = append(out, fmt.Sprintf("the mean wait of %s is %.1f s, it was %.1f", class, got, want))
		}
	}
	if math.Abs(simulated.Evictions-m.Evictions) > max(.3*m.Evictions, 2) {
		out = append(out, fmt.Sprintf("there are %.1f evictions, there were %.0f", simulated.Evictions, m.Evictions))
	}
	slices.Sort(out)
	return out
}

// String lists the means in order of class.
func (m Means) String() string {
	var b strings.Builder
	for _, class := range []string{"all", "<8", ">=8"} {
		fmt.Fprintf(&b, "%s %.1f, ", class, m.Wait[class])
	}
	for i := 0; ; i++ {
		wait, is := m.Wait[fmt.Sprint("tenant-", i)]
		if !is {
			break
		}
		fmt.Fprintf(&b, "tenant-%d %.1f, ", i, wait)
	}
	fmt.Fprintf(&b, "evictions %.1f", m.Evictions)
	return b.String()
}
