package tiresias_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/schedulers/tiresias"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

var update = flag.Bool("update", false, "write the results into testdata")

// TestExamples plays the worked examples in testdata. Each says what it shows,
// then the cluster, the settings and the jobs, and below a line of dashes what
// happens, which -update writes.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, _ := strings.Cut(string(text), "\n----\n")
			got := parse(t, input).play(t)
			if *update {
				if err := os.WriteFile(file, []byte(input+"\n----\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// example is one file's input.
type example struct {
	cluster workload.Cluster
	sets    []string
	jobs    []workload.Job
	options simulator.Options
	// At an instant, other settings.
	reconfigure     time.Duration
	reconfigureSets []string
}

func parse(t *testing.T, input string) *example {
	t.Helper()
	e := &example{cluster: workload.Cluster{Nodes: 1, GPUsPerNode: 4}, options: simulator.Options{NoRestartCost: true}}
	number := func(s string) float64 {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for line := range strings.Lines(input) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		switch f[0] {
		case "cluster": // nodes x GPUs
			e.cluster = workload.Cluster{Nodes: int(number(f[1])), GPUsPerNode: int(number(f[3]))}
		case "set":
			e.sets = append(e.sets, f[1:]...)
		case "restarts": // cost what they cost
			e.options.NoRestartCost = false
		case "budget":
			e.options.EventBudget = int(number(f[1]))
		case "reconfigure": // instant, settings
			e.reconfigure, e.reconfigureSets = seconds(number(f[1])), f[2:]
		case "job": // name, submit, duration, GPUs[, model]
			j := workload.Job{ID: f[1], Submit: seconds(number(f[2])), Duration: seconds(number(f[3])), GPUs: workload.GPUs(int(number(f[4]))), Model: "resnet50"}
			if len(f) > 5 {
				j.Model = f[5]
			}
			e.jobs = append(e.jobs, j)
		default:
			t.Fatalf("cannot read %q", line)
		}
	}
	return e
}

func seconds(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }

func config(t *testing.T, sets []string) space.Config {
	t.Helper()
	s, err := space.New(tiresias.Space(), tiresias.Rules())
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Parse(s.Default(), sets)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// play tells what happens, one line per event, and in the end what became of
// each job.
func (e *example) play(t *testing.T) string {
	t.Helper()
	w, err := workload.New("example", time.Time{}, e.jobs)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	var sim simulator.Sim
	policy := tiresias.New(config(t, e.sets))
	e.options.Observer = func(ev simulator.Event) {
		fmt.Fprintf(&out, "%8s %-9s %s", strconv.FormatFloat(ev.Time.Seconds(), 'f', -1, 64), ev.Kind, sim.JobName(ev.Job))
		switch ev.Kind {
		case workload.Started, workload.Resumed:
			fmt.Fprint(&out, " on")
			for _, n := range sim.Placement(nil, ev.Job) {
				fmt.Fprintf(&out, " %d:%d", n.Node, n.GPUs)
			}
			fallthrough
		case workload.Preempted:
			fmt.Fprintf(&out, ", service %v", ev.Seen.LevelAttained.Seconds())
		}
		fmt.Fprintln(&out)
	}
	if err := sim.Start(e.cluster, w, policy, e.options); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if e.reconfigureSets != nil {
		if err := sim.RunUntil(ctx, e.reconfigure); err != nil {
			t.Fatal(err)
		}
		sim.Reconfigure(tiresias.New(config(t, e.reconfigureSets)))
		fmt.Fprintf(&out, "%8v reconfigured\n", e.reconfigure.Seconds())
	}
	if err := sim.Run(ctx); err != nil {
		fmt.Fprintln(&out, err)
		return out.String()
	}
	fmt.Fprintln(&out)
	for _, o := range sim.Outcomes(nil) {
		fmt.Fprintf(&out, "%s: JCT %v, waited %v, preempted %d, restarting %v, attained %v GPU-s", sim.JobName(o.ID), o.JCT().Seconds(), o.Wait.Seconds(), o.Preemptions, o.Restart.Seconds(), o.Attained.Seconds())
		if o.Spread {
			fmt.Fprint(&out, ", spread")
		}
		fmt.Fprintln(&out)
	}
	return out.String()
}
