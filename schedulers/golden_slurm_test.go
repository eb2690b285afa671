package schedulers_test

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// Recordings of a real slurmctld: runs/<workload>.<conf>[.<repeat>].csv under conf/<conf>.conf, a row per start of
// a job. Which instants its cycles and calculations came at is not recorded, so a recording is compared with an
// ensemble over them.

// recorded is a job of a recording.
type recorded struct {
	job, submit, start int // seconds but for the job
}

// slurmCluster is what was the same in all recordings.
func slurmCluster() workload.Cluster {
	site := workload.Site{QOS: []workload.QOS{{Name: "high", Priority: 100, Preempt: []string{"low"}},
		{Name: "normal", Priority: 50}, {Name: "low"}},
		Partitions: []workload.Partition{{Name: "train", DefaultMinutes: 10, MaxMinutes: 7 * 24 * 60}},
		Accounts:   []workload.Account{{User: "root", Shares: 1}}}
	for i, shares := range []float64{10, 20, 10, 5, 5, 5, 5, 5} {
		vc := fmt.Sprintf("vc%d", i+1)
		site.Accounts = append(site.Accounts, workload.Account{Name: vc, Shares: shares})
		for k := range 2 {
			user := fmt.Sprintf("asu%02d", 2*i+k+1)
			site.Accounts = append(site.Accounts, workload.Account{Name: vc, User: user, Shares: 1})
		}
	}
	site.Accounts = append(site.Accounts, workload.Account{Name: "vc1", User: "root", Shares: 1})
	return workload.Cluster{Site: site,
		Groups: []workload.NodeGroup{{Nodes: 16, GPUsPerNode: 8, CPUs: 64, Partition: "train"}}}
}

// readRecording reads a run and the jobs that make it.
func readRecording(t testing.TB, file string) ([]workload.Job, []recorded) {
	t.Helper()
	f, err := os.Open(file)
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
	byJob := map[int]int{}
	var jobs []workload.Job
	var out []recorded
	for _, row := range rows[1:] {
		number := func(name string) int {
			v, err := strconv.Atoi(row[column[name]])
			if err != nil {
				t.Fatalf("%s: %s: %v", file, name, err)
			}
			return v
		}
		text := func(name string) string { return row[column[name]] }
		run := time.Duration(max(1, number("end")-number("start"))) * time.Second
		job, nodes := number("job"), number("nodes")
		i, again := byJob[job]
		if !again {
			i = len(jobs)
			byJob[job] = i
			jobs = append(jobs, workload.Job{ID: fmt.Sprint(job), User: text("user"), Tenant: text("account"),
				Submit: time.Duration(number("submit")) * time.Second,
				GPUs:   workload.GPUs(nodes * number("gpus_per_node")),
				Requested: workload.Request{NodeCount: int32(nodes), Partition: "train", Account: text("account"),
					QOS: text("qos"), TimeLimit: time.Duration(number("limit_min")) * time.Minute,
					Requeue: workload.RequeueRestarts}.Shared()})
			out = append(out, recorded{job: job, submit: number("submit"), start: number("start")})
		}
		if start := number("start_no"); start == 1 {
			jobs[i].Submit = time.Duration(number("submit")) * time.Second
			out[i].submit, out[i].start = number("submit"), number("start")
			jobs[i].Duration = run
		} else {
			jobs[i].Duration = run // that of the last start
		}
	}
	order := make([]int, len(jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return out[a].job - out[b].job })
	var js []workload.Job
	var rs []recorded
	for _, i := range order {
		js, rs = append(js, jobs[i]), append(rs, out[i])
	}
	return js, rs
}

// member is a run of an ensemble.
type member struct {
	medianError, meanWait, meanError float64
}

// phases are what a recording does not say.
type phases struct {
	slurm.Phases
	epilog time.Duration // until the GPUs of a job that ended are free
	late   func() bool   // whether the next submission arrives a second later
}

const members = 24

// ensemble draws the phases of members. The first are those of an idle start; the others are a Latin hypercube:
// each phase comes from every part of its range equally often.
func ensemble(s *slurm.Settings) []phases {
	out := []phases{{slurm.Phases{Backfill: s.BFInterval, Full: s.SchedInterval, Tick: time.Minute}, time.Second,
		func() bool { return false }}}
	r := rand.New(rand.NewPCG(1, 16))
	const others = members - 1
	backfill, tick, epilog := r.Perm(others), r.Perm(others), r.Perm(others)
	draw := func(part int, seconds time.Duration) time.Duration {
		return time.Second * time.Duration(1+(float64(part)+r.Float64())/others*seconds.Seconds())
	}
	for i := range others {
		delays := rand.New(rand.NewPCG(uint64(i), 17))
		out = append(out, phases{slurm.Phases{Backfill: draw(backfill[i], s.BFInterval), Full: s.SchedInterval,
			Tick: draw(tick[i], time.Minute)}, min(1, time.Duration(epilog[i]%3)) * time.Second,
			func() bool { return delays.Float64() < .15 }})
	}
	return out
}

// simulateRecording runs a member.
func simulateRecording(t testing.TB, s slurm.Settings, jobs []workload.Job, want []recorded, of phases,
	nodes []workload.NodeEvent) member {
	t.Helper()
	s.Phases = of.Phases
	opts := simulator.Options{Epilog: of.epilog, Nodes: nodes}
	jobs = slices.Clone(jobs)
	for i := range jobs {
		if of.late() {
			jobs[i].Submit += time.Second
		}
	}
	w, err := workload.New("recording", time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	var sim simulator.Sim
	if err := sim.Start(slurmCluster(), w, slurm.NewPolicy(s), opts); err != nil {
		t.Fatal(err)
	}
	if err := sim.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	starts := map[string]int{}
	for _, o := range sim.Outcomes(nil) {
		starts[sim.JobName(o.ID)] = int(math.Floor(o.Start.Seconds()))
	}
	var m member
	var errors []float64
	for _, r := range want {
		start := starts[fmt.Sprint(r.job)]
		errors = append(errors, math.Abs(float64(start-r.start)))
		m.meanError += errors[len(errors)-1] / float64(len(want))
		m.meanWait += float64(start-r.submit) / float64(len(want))
	}
	m.medianError = median(errors)
	return m
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	n := len(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}

func goldenSlurm(t *testing.T) {
	dir := testshared.Path(t, "golden", "slurm")
	files, err := filepath.Glob(filepath.Join(dir, "runs", "*.csv"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".csv")
		t.Run(name, func(t *testing.T) {
			parts := strings.Split(name, ".")
			s := readSettings(t, filepath.Join(dir, "conf", parts[1]+".conf"))
			jobs, want := readRecording(t, file)
			var nodes []workload.NodeEvent
			if name == "g.preempt" { // two older jobs held nodes
				for node, until := range map[int]time.Duration{0: 103 * time.Second, 3: 91 * time.Second} {
					nodes = append(nodes, workload.NodeEvent{At: 0, Kind: workload.NodeDrained, Node: node},
						workload.NodeEvent{At: until, Kind: workload.NodeUp, Node: node})
				}
				slices.SortFunc(nodes, func(a, b workload.NodeEvent) int { return int(a.At - b.At) })
			}
			var errors, waits, means []float64
			recordedWait := 0.0
			for _, r := range want {
				recordedWait += float64(r.start-r.submit) / float64(len(want))
			}
			for i, of := range ensemble(&s) {
				m := simulateRecording(t, s, jobs, want, of, nodes)
				if i == 0 {
					t.Logf("member 0: wait %.1f, median error %g, mean error %.1f", m.meanWait, m.medianError,
						m.meanError)
				}
				errors, waits = append(errors, m.medianError), append(waits, m.meanWait)
				means = append(means, m.meanError)
			}
			most := 4.0
			if name == "w1.default" || name == "w2.default" {
				most = 6
			}
			t.Logf("recorded %.1f, wait %.1f in %.1f..%.1f, median error %g, mean error %.1f", recordedWait,
				median(waits), slices.Min(waits), slices.Max(waits), median(errors), median(means))
			if e := median(errors); e > most {
				t.Errorf("the median error of a start is %g s, want at most %g", e, most)
			}
			if name == "g.preempt" {
				if low, high := slices.Min(waits)-1, slices.Max(waits); recordedWait < low || recordedWait > high {
					t.Errorf("the mean wait was %.1f s, in the ensemble %.1f to %.1f", recordedWait, low, high)
				}
			} else if d := math.Abs(median(waits) - recordedWait); d > max(2, .2*recordedWait) {
				t.Errorf("the mean wait is %.1f s, it was %.1f", median(waits), recordedWait)
			}
		})
	}
}

// readSettings reads lines of slurm.conf, and logs those that are not simulated.
func readSettings(t testing.TB, file string) slurm.Settings {
	t.Helper()
	c, err := conf.Read(file, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	s := slurm.Defaults()
	var not slurm.NotSimulated
	if err := c.Apply(&s); errors.As(err, &not) {
		t.Log(not)
	} else if err != nil {
		t.Fatal(err)
	}
	return s
}
