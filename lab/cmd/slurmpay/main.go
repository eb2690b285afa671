// Command slurmpay measures the worth of configurations on emulated clusters of a real Slurm: it submits jobs
// drawn from a trace under the default, a site's hand-made settings, the best preset, AutoSched's answer to the
// history, and with AutoSched live, and compares the results with the simulator's promise. It needs root and
// Slurm's packages; docs/notes/slurm-model.md has results.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// arms are the compared ways to run. All but the first have the intervals of the site; intervals has the default order.
// fixed and switch are of runs with --then alone: the best settings of the first half in hindsight throughout, and
// those of each half.
var arms = []string{"default", "intervals", "site", "preset", "fixed", "once", "live", "switch"}

// result is a run, a line of the file of results.
type result struct {
	Seed    uint64     `json:"seed"`
	Arm     string     `json:"arm"`
	Repeat  int        `json:"repeat"`
	Jobs    []recorded `json:"jobs"`
	Changes []change   `json:"changes"`
	// Wait is the mean wait, Promised the simulated one, in seconds; WaitOf is the wait of each job.
	Wait     float64   `json:"wait_s"`
	Promised float64   `json:"promised_s"`
	WaitOf   []float64 `json:"promised_wait_s"`
	// Forecast is the ratio of mean waits, after to before, that the search expected of futures; 0 for none.
	Forecast float64 `json:"forecast_ratio,omitempty"`
	Chosen   string  `json:"chosen,omitempty"`
	Machine  machine `json:"machine"`
}

// machine is the delay of a run by the load of the machine, in seconds.
type machine struct {
	Late     float64 `json:"late_s"`           // p95 of how late a job was submitted
	Over     float64 `json:"over_s"`           // p95 of how much longer than asked a job ran
	Main     float64 `json:"main_cycle_s"`     // slurmctld's longest main cycle
	Backfill float64 `json:"backfill_cycle_s"` // and its longest backfill cycle
}

// disturbed reports whether the machine's load shows in the run: a cycle takes more than Slurm's unit of time, or jobs
// hold their GPUs longer than Slurm's own overhead explains.
func (m *machine) disturbed() bool { return m.Main > 1 || m.Backfill > 1 || m.Over > 4 }

// recorded is a job as accounting has it, in seconds after the first submission.
type recorded struct {
	Submit, Start, End      float64
	Nodes, GPUs, Minutes    int
	User, Account, QOS, Job string
}

func (r *recorded) wait() float64 { return r.Start - r.Submit }

type options struct {
	trace, then        string
	out, autosched     string
	jobs, seeds, lanes int
	only               string
	span               time.Duration
	load               float64
	repeats            int
	starting           sync.Mutex // held while a cluster starts
}

func main() {
	var o options
	flag.StringVar(&o.trace, "trace", "", "trace that the jobs are drawn from, with 26,000 rows or more (required)")
	flag.StringVar(&o.then, "then", "", "trace of another shape that the second half of each run is drawn from")
	flag.StringVar(&o.out, "out", "out/slurmpay.jsonl", "file of results; runs that it has are not repeated")
	flag.StringVar(&o.autosched, "autosched", "bin/autosched", "the program")
	flag.IntVar(&o.jobs, "jobs", 400, "jobs of a run")
	flag.IntVar(&o.seeds, "seeds", 5, "workloads")
	flag.IntVar(&o.repeats, "repeats", 1,
		"more runs of the site's settings on the first workload, which show how far a run repeats itself")
	flag.IntVar(&o.lanes, "lanes", 3, "clusters at a time")
	flag.DurationVar(&o.span, "span", 330*time.Second, "time in which the jobs are submitted")
	flag.Float64Var(&o.load, "load", 1.1, "work submitted over the capacity of the span")
	flag.StringVar(&o.only, "arms", "default,intervals,site,preset,once,live", "what is compared")
	report := flag.Bool("report", false,
		"print the tables of the file of results, as docs/notes/slurm-model.md has them, and run nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *report {
		err = o.report(os.Stdout)
	} else {
		err = o.measure(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "slurmpay:", err)
		os.Exit(1)
	}
}

// results reads the results so far; a line that was cut off is run again.
func (o *options) results() ([]result, error) {
	f, err := os.Open(o.out)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []result
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r result
		if json.Unmarshal(lines.Bytes(), &r) == nil {
			out = append(out, r)
		}
	}
	return out, lines.Err()
}

// measure makes the runs that the file lacks, workload by workload.
func (o *options) measure(ctx context.Context) error {
	if o.trace == "" {
		return errors.New("--trace is missing: name a trace, such as Philly's jobs.csv.gz")
	}
	w, _, err := trace.Open(ctx, o.trace, trace.Options{})
	if err != nil {
		return err
	}
	var then []workload.Job
	if o.then == reversedShape {
		then = w.Jobs()
	} else if o.then != "" {
		t, _, err := trace.Open(ctx, o.then, trace.Options{})
		if err != nil {
			return err
		}
		then = t.Jobs()
	}
	done, err := o.results()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(o.out, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if o.autosched, err = filepath.Abs(o.autosched); err != nil {
		return err
	}
	type task struct {
		seed   uint64
		arm    string
		repeat int
	}
	tasks := make(chan task)
	var mu sync.Mutex
	var failed []error
	var lanes sync.WaitGroup
	for range o.lanes {
		lanes.Go(func() {
			for t := range tasks {
				began := time.Now()
				r, err := o.run(ctx, w.Jobs(), then, t.seed, t.arm)
				mu.Lock()
				if err == nil && r == nil {
					mu.Unlock()
					continue
				}
				if err == nil {
					r.Repeat = t.repeat
					line, _ := json.Marshal(r)
					_, err = f.Write(append(line, '\n'))
				}
				if err != nil {
					err = fmt.Errorf("seed %d, %s: %w", t.seed, t.arm, err)
					failed = append(failed, err)
					fmt.Fprintln(os.Stderr, err)
				} else {
					fmt.Fprintf(os.Stderr, "seed %d, %s: mean wait %.1f s, promised %.1f s (%s, %d changes, %v)\n",
						t.seed, t.arm, r.Wait, r.Promised, r.Chosen, len(r.Changes)-1,
						time.Since(began).Round(time.Second))
				}
				mu.Unlock()
			}
		})
	}
	give := func(t task) {
		if slices.ContainsFunc(done, func(r result) bool {
			return r.Seed == t.seed && r.Arm == t.arm && r.Repeat == t.repeat
		}) {
			return
		}
		select {
		case tasks <- t:
		case <-ctx.Done():
		}
	}
	for seed := range o.seeds {
		for _, arm := range strings.Split(o.only, ",") {
			give(task{seed: uint64(seed + 1), arm: arm})
		}
	}
	for repeat := 1; repeat <= o.repeats; repeat++ {
		give(task{seed: 1, arm: "site", repeat: repeat})
	}
	close(tasks)
	lanes.Wait()
	if err := ctx.Err(); err != nil {
		return errors.New("interrupted: the same command goes on")
	}
	return errors.Join(failed...)
}

// traced is a history as a workload that ends at an instant.
func traced(jobs []job, end time.Time, span time.Duration) (*workload.Workload, error) {
	out := make([]workload.Job, len(jobs))
	for i, j := range jobs {
		out[i] = workload.Job{ID: fmt.Sprint("h", i), User: j.User, Tenant: j.Account,
			Key:    fmt.Sprint(j.User, "/", j.gpus()),
			Submit: time.Duration(j.at*1000) * time.Millisecond, Duration: time.Duration(j.Seconds) * time.Second,
			GPUs: workload.GPUs(j.gpus()), Status: workload.Completed,
			Requested: workload.Request{NodeCount: int32(j.Nodes), Partition: "train", Account: j.Account, QOS: j.QOS,
				TimeLimit: time.Duration(j.Minutes) * time.Minute}.Shared()}
	}
	return workload.New("history", end.Add(-historyRuns*span), out)
}
