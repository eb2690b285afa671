package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/autosched/autosched/adapter/kubernetes/apply"
	"github.com/autosched/autosched/adapter/kubernetes/rig"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	kueueconf "github.com/autosched/autosched/schedulers/kueue/conf"
	"github.com/autosched/autosched/schedulers/volcano"
	volcanoconf "github.com/autosched/autosched/schedulers/volcano/conf"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// stretch is the factor of time from a cluster to the rule: a minute of a cluster is a day of the rule, so that all
// periods of the rule are shorter by it.
const stretch = 1440

// objective is the mean wait. No tenant may lose more than a tenth and a second of the cluster of its p95.
var objective = fmt.Sprintf("avg_queue subject to tenant_p95_queue<=1.1*incumbent+%ds", stretch)

// zero is the rule's time of the first recorded job.
var zero = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// between is a pause of a cluster between two recorded runs.
const between = 10 * time.Second

// rule is the product's, which sees a cluster's times multiplied by stretch.
type rule struct {
	scheduler *schedulers.Scheduler
	adapter   apply.Scheduler
	space     *space.Space
	cluster   workload.Cluster
	goal      round.Goal
	incumbent space.Config
	ledger    *workload.Ledger
	begin     time.Duration // of the present run
	last      json.RawMessage
	replays   round.Replays
	rounds    int
}

// site is a cluster as its objects say.
type site struct {
	cluster workload.Cluster
	params  []space.Param
	rules   []space.Rule
	values  space.Values
	events  []workload.Event
}

// read reads objects, and Volcano's text.
func read(scheduler string, objects []byte) (*site, error) {
	files := map[string][]byte{"objects.json": objects}
	if scheduler == "kueue" {
		s, err := kueueconf.Read(files)
		if err != nil {
			return nil, err
		}
		out := &site{cluster: s.Cluster, events: s.Events}
		out.params, out.rules, out.values, err = s.Space()
		return out, err
	}
	files["volcano.conf"] = []byte(rig.DefaultConf)
	s, err := volcanoconf.Read(files)
	if err != nil {
		return nil, err
	}
	out := &site{cluster: s.Cluster, events: s.Events}
	out.params, out.rules, out.values = s.Space()
	return out, nil
}

// newRule makes the rule of a cluster from its objects. Settings that count time stay as they are.
func newRule(scheduler string, objects []byte) (*rule, error) {
	s, err := read(scheduler, objects)
	if err != nil {
		return nil, err
	}
	r := &rule{adapter: apply.NewKueue(), cluster: s.cluster}
	if r.scheduler, err = schedulers.Find(scheduler); err != nil {
		return nil, err
	}
	if scheduler == "volcano" {
		r.adapter = apply.NewVolcano()
		r.cluster.Site.Settings = maps.Clone(r.cluster.Site.Settings)
		if r.cluster.Site.Settings == nil {
			r.cluster.Site.Settings = map[string]string{}
		}
		r.cluster.Site.Settings[volcano.SchedulePeriod] = (stretch * volcano.Defaults().SchedulePeriod).String()
	}
	timed := func(id string) bool { return id == volcano.SLAID || id == volcano.OrderID }
	s.params = slices.DeleteFunc(s.params, func(p space.Param) bool { return timed(p.ID) })
	s.rules = slices.DeleteFunc(s.rules, func(x space.Rule) bool {
		return x.Activation != nil && timed(x.Activation.Param)
	})
	if r.scheduler, err = r.scheduler.WithSpace(s.params, s.rules); err != nil {
		return nil, err
	}
	r.space = r.scheduler.Space
	r.incumbent, _ = r.space.Project(s.values)
	r.ledger = workload.NewLedger(r.cluster)
	r.goal, err = round.ParseGoal(objective)
	return r, err
}

// recall adds recorded runs to the history, one after another.
func (r *rule) recall(files []string) error {
	for _, file := range files {
		objects, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		s, err := read(r.scheduler.Name, objects)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if len(s.events) == 0 {
			return fmt.Errorf("%s: has no jobs", file)
		}
		first, last := s.events[0].Time, s.events[len(s.events)-1].Time
		r.observe(filepath.Base(file), s.events, first) // which does not depend on the folder
		r.begin += stretch * (last - first + between).Truncate(time.Second)
	}
	return nil
}

// observe adds events of a run that began at an instant.
func (r *rule) observe(run string, events []workload.Event, began time.Duration) {
	at := func(t time.Duration) time.Duration { return r.begin + stretch*(t-began) }
	for _, e := range events {
		e.ID, e.Job.ID = run+"/"+e.ID, run+"/"+e.Job.ID
		if e.Time = at(e.Time); e.Kind == workload.Submitted {
			e.Job.Submit = e.Time
		}
		r.ledger.Apply(e)
	}
}

// input is that of a round at an instant of the run.
func (r *rule) input(now time.Duration) round.Input {
	at := r.begin + stretch*now
	return round.Input{Snapshot: round.Snapshot{State: r.ledger.State(at), Ledger: r.ledger, Zero: zero,
		Scattered: round.Scattered(r.scheduler.Name)}, Scheduler: r.scheduler.Name, Space: r.space, Goal: r.goal,
		Incumbent: r.incumbent, Round: int(at / round.DefaultInterval), History: r.last, Replays: &r.replays}
}

// decide makes a round at an instant of the run.
func (r *rule) decide(ctx context.Context, now time.Duration) (round.Decision, error) {
	in := r.input(now)
	in.Workers = 1 // the jobs and the cluster are on this machine, too
	d, err := round.DecideOnline(ctx, in)
	if err == nil {
		r.last = d.History
		r.rounds++
	}
	return d, err
}

// searched is the number of configurations of a search.
const searched = 200

// ask answers as tune does: it searches on futures, and asks whether the history justifies the best of these, a preset,
// or the part of one that gains the same.
func (r *rule) ask(ctx context.Context) (*replay.Verdict, error) {
	in := r.input(0)
	in.Search, in.Budget, in.Always = round.SearchFull, searched, true
	best, err := round.DecideOnline(ctx, in)
	if err != nil {
		return nil, err
	}
	in = r.input(0)
	known := in.Recorded()
	jobs := make([]workload.Job, len(known.Jobs))
	for i, j := range known.Jobs {
		jobs[i] = *j.Job
		jobs[i].Duration, jobs[i].Status = j.Ran, workload.Completed
		jobs[i].Wait, jobs[i].HasWait = j.Begin-j.Submit, true
	}
	trace, err := workload.New("history", zero, jobs)
	if err != nil {
		return nil, err
	}
	return replay.Ask(ctx, replay.AskOptions{Trace: trace, To: r.begin, Cluster: r.cluster, Scheduler: r.scheduler,
		InForce: r.incumbent, Goal: r.goal, Guard: round.DefaultSettings().Guard,
		Found: []search.Preset{{Name: "found", Origin: "search", Config: best.Config}}})
}
