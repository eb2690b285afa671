// Package recorded is runs of a real slurmctld, runs/<workload>.<conf>[.<repeat>].csv under conf/<conf>.conf with a row
// per start of a job, as tests compare simulations with them. Which instants its cycles and calculations came at is not
// recorded, so a recording is compared with an ensemble over them.
package recorded

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
	"time"

	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// Run is a recording.
type Run struct {
	// Jobs make it: their run times count from their last starts, or are the ones asked for where the file has them.
	Jobs    []workload.Job
	Cluster workload.Cluster
	starts  []start
	asked   []workload.Job // the jobs as they asked for resources, nil if they got no more
}

// start is that of a job, in seconds but for the job and the names of its nodes.
type start struct {
	job, submit, start int
	nodes              []string
}

// cluster is the common cluster of all recordings.
func cluster() workload.Cluster {
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

// Read reads a run and the jobs that make it.
func Read(file string) (*Run, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	byJob := map[int]int{}
	var jobs []workload.Job
	var out []start
	type requested struct {
		gpus workload.MilliGPU
		workload.Requested
	}
	var asked []requested
	var bad error
	for _, row := range rows[1:] {
		number := func(name string) int {
			v, err := strconv.Atoi(row[column[name]])
			if err != nil {
				bad = fmt.Errorf("%s: %s: %w", file, name, err)
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
			partition := "train"
			if _, named := column["partition"]; named {
				partition = text("partition")
			}
			asks := workload.Request{NodeCount: int32(nodes), Partition: partition, Account: text("account"),
				QOS: text("qos"), TimeLimit: time.Duration(number("limit_min")) * time.Minute,
				Requeue: workload.RequeueRestarts}
			gpus := workload.GPUs(nodes * number("gpus_per_node"))
			s := start{job: job, submit: number("submit"), start: number("start")}
			if at, has := column["req_tres"]; has {
				t, _, err := slurmtext.JobTRES(row[column["alloc_tres"]], row[at])
				if err != nil {
					return nil, fmt.Errorf("%s: job %d: %w", file, job, err)
				}
				least, err := slurmtext.ParseTRES(row[at])
				if err != nil {
					return nil, fmt.Errorf("%s: job %d: %w", file, job, err)
				}
				gpus = workload.MilliGPU(t.GPUs.NearestMilli())
				asks.MilliCPUs, asks.Memory, asks.GPUModel = least.MilliCPUs, least.Memory, slurmtext.GPUType(row[at])
				asked = append(asked, requested{workload.MilliGPU(least.GPUs.NearestMilli()), asks.Shared()})
				asks.MilliCPUs, asks.Memory = t.MilliCPUs, t.Memory
				if s.nodes, err = slurmtext.HostList(text("node_list")); err != nil {
					return nil, fmt.Errorf("%s: job %d: %w", file, job, err)
				}
			}
			jobs = append(jobs, workload.Job{ID: fmt.Sprint(job), User: text("user"), Tenant: text("account"),
				Submit: time.Duration(number("submit")) * time.Second, GPUs: gpus, Requested: asks.Shared()})
			out = append(out, s)
		}
		if text("state") == "PREEMPTED" && column["run_s"] > 0 {
			run = time.Duration(number("run_s")) * time.Second
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
	r := &Run{Cluster: cluster()}
	for _, i := range order {
		r.Jobs, r.starts = append(r.Jobs, jobs[i]), append(r.starts, out[i])
		if asked != nil {
			jobs[i].GPUs, jobs[i].Requested = asked[i].gpus, asked[i].Requested
			r.asked = append(r.asked, jobs[i])
		}
	}
	return r, bad
}

// ReadSite reads a run on a cluster that the listings of a folder describe, and its settings.
func ReadSite(file, listings string) (*Run, slurm.Settings, error) {
	settings := slurm.Defaults()
	var shown conf.Shown
	for i, to := range shown.Files() {
		text, err := os.ReadFile(filepath.Join(listings, conf.Commands[i].File))
		if err != nil {
			return nil, settings, err
		}
		*to = text
	}
	shown.Reservations, _ = os.ReadFile(filepath.Join(listings, conf.ReservationCommand.File)) // not all have these
	shown.Topology, _ = os.ReadFile(filepath.Join(listings, conf.TopologyCommand.File))
	site, err := shown.Site()
	if err != nil {
		return nil, settings, err
	}
	run, err := Read(file)
	if err != nil {
		return nil, settings, err
	}
	run.Cluster = site.Cluster
	var not slurm.NotSimulated
	if err := site.Config.Apply(&settings); err != nil && !errors.As(err, &not) {
		return nil, settings, err
	}
	return run, settings, nil
}

// Requested gives the jobs of a partition the resources that they asked for, in place of the allocated ones.
func (r *Run) Requested(partition string) {
	for i := range r.Jobs {
		if r.Jobs[i].Request().Partition == partition {
			r.Jobs[i] = r.asked[i]
		}
	}
}

// leafOf are the leaf switches of a cluster, by names and numbers of nodes.
func leafOf(c *workload.Cluster) map[any]string {
	out := map[any]string{}
	for _, s := range c.Site.Switches {
		for _, n := range s.Nodes {
			out[n.Name], out[n.Number] = s.Name, s.Name
		}
	}
	return out
}

// Leaves is the mean recorded number of leaf switches of a cluster that jobs on several nodes had.
func (r *Run) Leaves(c *workload.Cluster) float64 {
	leaf, leaves, jobs := leafOf(c), 0, 0
	for _, s := range r.starts {
		under := map[string]bool{}
		for _, name := range s.nodes {
			under[leaf[name]] = true
		}
		if len(s.nodes) > 1 {
			leaves, jobs = leaves+len(under), jobs+1
		}
	}
	return float64(leaves) / float64(jobs)
}

// MeanWait is the recorded one, in seconds.
func (r *Run) MeanWait() float64 {
	sum := 0
	for _, s := range r.starts {
		sum += s.start - s.submit
	}
	return float64(sum) / float64(len(r.starts))
}

// Member is how a run of an ensemble compares with the recorded one, in seconds: errors are of starts. Leaves is as
// Run.Leaves has it, of a cluster that Simulate is given.
type Member struct {
	MedianError, MeanWait, MeanError, Leaves float64
}

// Phases are the unknowns of a recording.
type Phases struct {
	slurm.Phases
	epilog time.Duration // until the GPUs of a job that ended are free
	late   func() bool   // whether the next submission arrives a second later
}

const members = 24

// zero is the instant of the first submission in listings.
var zero = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Ensemble draws the phases of members. The first are of an idle start; the others are a Latin hypercube:
// each phase comes from every part of its range equally often.
func Ensemble(s *slurm.Settings) []Phases {
	out := []Phases{{slurm.Phases{Backfill: s.BFInterval, Full: s.SchedInterval, Tick: time.Minute}, time.Second,
		func() bool { return false }}}
	r := rand.New(rand.NewPCG(1, 16))
	const others = members - 1
	backfill, tick, epilog := r.Perm(others), r.Perm(others), r.Perm(others)
	draw := func(part int, seconds time.Duration) time.Duration {
		return time.Second * time.Duration(1+(float64(part)+r.Float64())/others*seconds.Seconds())
	}
	for i := range others {
		delays := rand.New(rand.NewPCG(uint64(i), 17))
		out = append(out, Phases{slurm.Phases{Backfill: draw(backfill[i], s.BFInterval), Full: s.SchedInterval,
			Tick: draw(tick[i], time.Minute)}, min(1, time.Duration(epilog[i]%3)) * time.Second,
			func() bool { return delays.Float64() < .15 }})
	}
	return out
}

// Simulate runs a member under a policy of the settings.
func (r *Run) Simulate(s slurm.Settings, policy func(slurm.Settings) simulator.Policy, of Phases,
	nodes []workload.NodeEvent, switches ...workload.Cluster) (m Member, err error) {
	s.Phases = of.Phases
	jobs := slices.Clone(r.Jobs)
	for i := range jobs {
		if of.late() {
			jobs[i].Submit += time.Second
		}
	}
	w, err := workload.New("recording", zero, jobs)
	if err != nil {
		return m, err
	}
	var sim simulator.Sim
	o := simulator.Options{Epilog: of.epilog, Nodes: nodes}
	wide := 0
	for i := range switches {
		leaf := leafOf(&switches[i])
		o.Observer = func(e simulator.Event) {
			under := map[string]bool{}
			if at := sim.Placement(nil, e.Job); e.Kind == workload.Started && len(at) > 1 {
				for _, n := range at {
					under[leaf[n.Node]] = true
				}
				m.Leaves, wide = m.Leaves+float64(len(under)), wide+1
			}
		}
	}
	if err := sim.Start(r.Cluster, w, policy(s), o); err != nil {
		return m, err
	}
	if err := sim.Run(context.Background()); err != nil {
		return m, err
	}
	m.Leaves /= float64(max(1, wide))
	starts := map[string]int{}
	for _, o := range sim.Outcomes(nil) {
		starts[sim.JobName(o.ID)] = int(math.Floor(o.Start.Seconds()))
	}
	var errors []float64
	n := float64(len(r.starts))
	for _, was := range r.starts {
		start := starts[fmt.Sprint(was.job)]
		errors = append(errors, math.Abs(float64(start-was.start)))
		m.MeanError += errors[len(errors)-1] / n
		m.MeanWait += float64(start-was.submit) / n
	}
	m.MedianError = Median(errors)
	return m, nil
}

// Median is the mean of the two in the middle where their number is even.
func Median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	n := len(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}

// Settings reads lines of slurm.conf; not lists the ones that are not simulated.
func Settings(file string) (s slurm.Settings, not slurm.NotSimulated, err error) {
	c, err := conf.Read(file, os.ReadFile)
	if err != nil {
		return s, nil, err
	}
	s = slurm.Defaults()
	if err := c.Apply(&s); !errors.As(err, &not) && err != nil {
		return s, nil, err
	}
	return s, not, nil
}
