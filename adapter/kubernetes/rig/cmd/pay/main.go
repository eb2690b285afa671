// Command pay measures the worth of settings on a real Kueue or Volcano with emulated nodes: it submits jobs under the
// scheduler's default, the best preset, AutoSched's answer to a history, and with AutoSched asked again while the jobs
// run, and compares the waits with the promises. docs/notes/kubernetes-model.md has results.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/autosched/autosched/adapter/kubernetes/rig"
)

// The arms. A run of history is one of the default with other arrivals, of which the objects are kept.
const (
	history = "history"
	before  = "default"
	preset  = "preset"
	once    = "once"
	live    = "live"
)

// result is a run, a line of the file of results.
type result struct {
	Workload string      `json:"workload"`
	Seed     uint64      `json:"seed"`
	Arm      string      `json:"arm"`
	Classes  []rig.Class `json:"classes"`
	Late     float64     `json:"late_s"` // the most that a job was submitted late
	Over     float64     `json:"over_s"` // p95 of the difference between a job's time with GPUs and its run time
	// Gain is the part of the mean wait that the history promises to save, Low and High the least and the most in a
	// replay of it, where they are known.
	Gain    float64  `json:"gain,omitempty"`
	Low     float64  `json:"low,omitempty"`
	High    float64  `json:"high,omitempty"`
	Chosen  string   `json:"chosen,omitempty"`  // a preset's name, or the rule's reason
	Rounds  int      `json:"rounds,omitempty"`  // of the rule while the jobs ran
	Changes []change `json:"changes,omitempty"` // from the default
}

// change is a configuration that came into force in a run.
type change struct {
	At       float64  `json:"at_s"`
	Settings []string `json:"settings"` // that differ from the one before, with their values
	Reason   string   `json:"reason,omitempty"`
}

// mostLate and mostOver are the delays by the load of the machine above which a run is made again, in seconds.
const (
	mostLate = 1
	mostOver = .25
)

func (r *result) disturbed() bool { return r.Late > mostLate || r.Over > mostOver }

type options struct {
	scheduler, shared, dir string
	workloads, arms        string
	histories, seeds       uint64
	jitter                 time.Duration
	lanes                  int
}

func main() {
	var o options
	flag.StringVar(&o.scheduler, "scheduler", "volcano", "kueue or volcano")
	flag.StringVar(&o.shared, "shared", "../shared/golden/kubernetes", "folder of workloads and queues")
	flag.StringVar(&o.dir, "dir", "out/kubernetes-pay", "folder of results; runs that it has are not repeated")
	flag.StringVar(&o.workloads, "workloads", "a,b,c", "workloads")
	flag.StringVar(&o.arms, "arms", "history,default,preset,once,live", "runs to make")
	flag.Uint64Var(&o.histories, "histories", 7, "runs of the default before, which are the history")
	flag.Uint64Var(&o.seeds, "seeds", 3, "runs of each arm, with other arrivals")
	flag.DurationVar(&o.jitter, "jitter", 2*time.Second, "how far submissions are moved at most")
	flag.IntVar(&o.lanes, "jobs", 2, "clusters at a time")
	report := flag.Bool("report", false, "print the tables of the results and run nothing")
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
		fmt.Fprintln(os.Stderr, "pay:", err)
		os.Exit(1)
	}
}

// file is that of results.
func (o *options) file() string { return filepath.Join(o.dir, o.scheduler+".jsonl") }

// objects is the file of the objects of a run of history.
func (o *options) objects(workload string, seed uint64) string {
	return filepath.Join(o.dir, fmt.Sprintf("%s.%s.%d.json", o.scheduler, workload, seed))
}

// results reads the results so far, of the runs that the machine's load did not disturb.
func (o *options) results() ([]result, error) {
	f, err := os.Open(o.file())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []result
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: %w", o.file(), err)
		}
		if !r.disturbed() {
			out = append(out, r)
		}
	}
	return out, lines.Err()
}

// measure makes the runs that are missing, the history first.
func (o *options) measure(ctx context.Context) error {
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	arms := strings.Split(o.arms, ",")
	if slices.Contains(arms, history) {
		if err := o.each(ctx, []string{history}, historySeed, o.histories); err != nil {
			return err
		}
	}
	return o.each(ctx, slices.DeleteFunc(arms, func(arm string) bool { return arm == history }), 0, o.seeds)
}

// historySeed comes before the seeds of the history, which are no arm's.
const historySeed = 10

// tries is how often a run is made that the machine's load disturbs.
const tries = 3

// each makes the runs of arms with n seeds from the first on.
func (o *options) each(ctx context.Context, arms []string, first, n uint64) error {
	done, err := o.results()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(o.file(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	tasks := make(chan result)
	var mu sync.Mutex
	var failed []error
	var lanes sync.WaitGroup
	for range o.lanes {
		lanes.Go(func() {
			for t := range tasks {
				for range tries {
					r := t
					err := o.run(ctx, &r)
					mu.Lock()
					if err == nil {
						err = r.write(f)
					}
					if err != nil {
						failed = append(failed, fmt.Errorf("%v: %w", &r, err))
					} else {
						fmt.Fprintln(os.Stderr, &r)
					}
					mu.Unlock()
					if err != nil || !r.disturbed() {
						break
					}
				}
			}
		})
	}
	for seed := range n {
		for _, workload := range strings.Split(o.workloads, ",") {
			for _, arm := range arms {
				t := result{Workload: workload, Seed: first + seed + 1, Arm: arm}
				if slices.ContainsFunc(done, func(r result) bool {
					return r.Workload == t.Workload && r.Seed == t.Seed && r.Arm == t.Arm
				}) {
					continue
				}
				select {
				case tasks <- t:
				case <-ctx.Done():
				}
			}
		}
	}
	close(tasks)
	lanes.Wait()
	if ctx.Err() != nil {
		return errors.New("interrupted: the same command goes on")
	}
	return errors.Join(failed...)
}

// String is the run in a line.
func (r *result) String() string {
	out := fmt.Sprintf("%s, %s, seed %d", r.Workload, r.Arm, r.Seed)
	if r.Classes != nil {
		out += fmt.Sprintf(": mean wait %.1f s, late %.2f s, over %.2f s, changes: %s", r.class("all").Wait.Seconds(),
			r.Late, r.Over, runs{r}.said())
	}
	return out
}

func (r *result) write(to io.Writer) error {
	line, err := json.Marshal(r)
	if err == nil {
		_, err = to.Write(append(line, '\n'))
	}
	return err
}

// class is the part of the jobs of a name.
func (r *result) class(name string) rig.Class {
	i := slices.IndexFunc(r.Classes, func(c rig.Class) bool { return c.Name == name })
	if i < 0 {
		return rig.Class{}
	}
	return r.Classes[i]
}
