package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/autosched/autosched/adapter/slurm/site"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// stretch is the factor of time from a run to the rule: a second of a cluster is twelve minutes of the rule, so that a
// run of ten minutes is five days. All periods of the rule are shorter by it.
const stretch = 720

// historyDays is how far back the rule sees: all four of its stretches.
const historyDays = 20

// regime draws two workloads that follow each other, from a trace each, and the history of the first.
func (o *options) regime(first, second []workload.Job, seed uint64) (*windows, error) {
	n, span := o.jobs/2, o.span/2
	before := int(math.Ceil(historyDays * 86400 / stretch / span.Seconds()))
	w, err := choose(first, n, before, span, o.load, int(seed), o.seeds)
	if err != nil {
		return nil, err
	}
	if o.then == reversedShape {
		then, ok := draw(reversed(first[w.first:w.first+n]), span, o.load, seed)
		for _, j := range then {
			j.at += span.Seconds()
			w.run = append(w.run, j)
		}
		if !ok {
			return nil, fmt.Errorf("--then %s: no load of %g", o.then, o.load)
		}
		return w, nil
	}
	for at := (int(seed) - 1) * (len(second) - n) / o.seeds; at+n <= len(second); at += n / 4 {
		then, ok := draw(second[at:at+n], span, o.load, uint64(at))
		if !ok {
			continue
		}
		for _, j := range then {
			j.at += span.Seconds()
			w.run = append(w.run, j)
		}
		return w, nil
	}
	return nil, fmt.Errorf("--then: no %d jobs of it can have a load of %g in %v", n, o.load, span)
}

// reversedShape is the --then of the first workload's own jobs with the wide ones short.
const reversedShape = "reversed"

// reversed are jobs with the same arrivals, run times and widths, of which the widest run the shortest.
func reversed(jobs []workload.Job) []workload.Job {
	out := slices.Clone(jobs)
	order := make([]int, len(jobs))
	widths := make([]workload.MilliGPU, len(jobs))
	for i := range jobs {
		order[i], widths[i] = i, jobs[i].GPUs
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(jobs[a].Duration, jobs[b].Duration) })
	slices.SortFunc(widths, func(a, b workload.MilliGPU) int { return cmp.Compare(b, a) })
	for k, i := range order {
		out[i].GPUs = widths[k]
	}
	return out
}

// rule is the product's, which sees the cluster's times multiplied by stretch.
type rule struct {
	*lane
	scheduler string
	space     *space.Space
	cluster   workload.Cluster
	ledger    *workload.Ledger
	goal      round.Goal
	replays   *round.Replays
	incumbent space.Config
	last      json.RawMessage
	rounds    int
	begin     time.Duration // of the run
}

var ruleZero = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

func stretched(seconds float64) time.Duration {
	return time.Duration(seconds * stretch * float64(time.Second)).Truncate(time.Second)
}

// newRule makes the rule of a cluster: the order of jobs is tuned, and all that counts time keeps its value.
func (l *lane) newRule() (*rule, error) {
	narrowed, err := l.site.Narrowed()
	if err != nil {
		return nil, err
	}
	current := l.site.Current.Values()
	params := narrowed.Space().Params()
	for i := range params {
		p := &params[i]
		if p.Kind != space.KindDuration && p.Unit == "" {
			continue
		}
		v := current.Get(p.ID).Float() * stretch
		current[p.ID] = space.Num(v)
		if p.Kind == space.KindInt {
			current[p.ID] = space.Int(int(v))
		}
		p.Min, p.Max, p.Default, p.Special, p.Log = v, v, current[p.ID], nil, false
	}
	r := &rule{lane: l, scheduler: "slurm", cluster: l.site.Cluster, replays: &round.Replays{}}
	if r.space, err = space.New(params, narrowed.Space().Rules()); err != nil {
		return nil, err
	}
	r.incumbent, _ = r.space.Project(current)
	r.cluster.Site.Partitions = slices.Clone(r.cluster.Site.Partitions)
	for i := range r.cluster.Site.Partitions {
		p := &r.cluster.Site.Partitions[i]
		p.DefaultMinutes, p.MaxMinutes = p.DefaultMinutes*stretch, p.MaxMinutes*stretch
	}
	r.cluster.Site.Settings = maps.Clone(r.cluster.Site.Settings)
	r.cluster.Site.Settings["PriorityCalcPeriod"] = strconv.Itoa(stretch) // of fixedLines
	r.ledger = workload.NewLedger(r.cluster)
	// 15 s of the cluster.
	if r.goal, err = round.ParseGoal(strings.Replace(objective, "15s", stretched(15).String(), 1)); err != nil {
		return nil, err
	}
	return r, nil
}

// observed gives the ledger the events of a job up to an instant, in seconds. An unknown start or end is NaN.
func (r *rule) observed(id string, j *job, submit, start, end, now float64) {
	for i, e := range []workload.Event{
		{Kind: workload.Submitted, Time: r.begin + stretched(submit), Job: workload.Job{User: j.User,
			Tenant: j.Account, Key: fmt.Sprint(j.User, "/", j.gpus()), GPUs: workload.GPUs(j.gpus()),
			Submit: r.begin + stretched(submit),
			Requested: workload.Request{NodeCount: int32(j.Nodes), Partition: "train", Account: j.Account, QOS: j.QOS,
				TimeLimit: time.Duration(j.Minutes) * stretch * time.Minute}.Shared()}},
		{Kind: workload.Started, Time: r.begin + stretched(start)},
		{Kind: workload.Finished, Time: r.begin + stretched(end), Job: workload.Job{Status: workload.Completed}},
	} {
		if at := []float64{submit, start, end}[i]; !(at <= now) { // or not known
			continue
		}
		e.Job.ID, e.ID = id, fmt.Sprint(id, "/", e.Kind)
		r.ledger.Apply(e)
	}
}

// recall simulates the history under the site's settings, and adds its events to the ledger.
func (r *rule) recall(ctx context.Context, history []job) error {
	span := history[len(history)-1].at
	r.begin = stretched(math.Ceil(span))
	text, err := os.ReadFile(r.Include())
	if err != nil {
		return err
	}
	jobs := planned(history)
	changes := []change{{Conf: string(text)}}
	waits, _, err := simulate(ctx, r.site.Cluster, jobs, r.settings, changes, 1)
	if err != nil {
		return err
	}
	for i := range history {
		submit := history[i].at - math.Ceil(span)
		start := submit + waits[i]
		r.observed(fmt.Sprint("h", i), &history[i], submit, start, start+jobs[i].End-jobs[i].Start, 0)
	}
	return nil
}

// planned are jobs as accounting would have them if none waited.
func planned(jobs []job) []recorded {
	out := make([]recorded, len(jobs))
	for i, j := range jobs {
		out[i] = recorded{Submit: j.at, Start: j.at, End: j.at + float64(j.Seconds) + 1, Nodes: j.Nodes,
			GPUs: j.Job.GPUs, Minutes: j.Minutes, User: j.User, Account: j.Account, QOS: j.QOS}
	}
	return out
}

func (r *rule) snapshot(now float64) round.Snapshot {
	at := r.begin + stretched(now)
	return round.Snapshot{State: r.ledger.State(at), Ledger: r.ledger, Zero: ruleZero}
}

// decide makes a round at an instant of the run, and puts its result in force.
func (r *rule) decide(ctx context.Context, now float64) (string, error) {
	in := round.Input{Snapshot: r.snapshot(now), Scheduler: r.scheduler, Space: r.space, Goal: r.goal,
		Incumbent: r.incumbent, Round: int((r.begin + stretched(now)) / round.DefaultInterval), History: r.last,
		Replays: r.replays}
	d, err := round.DecideOnline(ctx, in)
	if err != nil {
		return "", err
	}
	r.last = d.History
	r.rounds++
	if !d.Adopt {
		return "", nil
	}
	how := "fast"
	if d.Daily {
		how = "daily"
	}
	r.incumbent = d.Config
	return fmt.Sprintf("%s at %.0f s", how, now), r.apply(ctx, r.order(d.Config))
}

// order has the values of a configuration that do not count time.
func (r *rule) order(c space.Config) space.Values {
	out := c.Values()
	for _, p := range r.space.Params() {
		if p.Kind == space.KindDuration || p.Unit != "" {
			delete(out, p.ID)
		}
	}
	return out
}

// answer is that of the daily rule to the history, and its source.
func (r *rule) answer(ctx context.Context) (name string, answer space.Config, err error) {
	s, err := site.Narrow(r.space)
	if err != nil {
		return "", answer, err
	}
	seen := r.snapshot(0)
	a, err := round.Ask(ctx, round.Question{Problem: round.Problem{Scheduler: s, Space: r.space, Cluster: r.cluster,
		Goal: r.goal, Incumbent: r.incumbent}, History: seen.Recorded(), Guard: .1})
	if err != nil || !a.Adopt {
		return "kept: " + a.Reason, r.incumbent, err
	}
	for _, c := range a.Compared {
		if c.Config.Equal(a.Config) {
			name = c.Origin
		}
	}
	return name, a.Config, nil
}

// follow makes the rounds of a run until the context ends; the function returned waits for it and returns the
// changes.
func (r *rule) follow(ctx context.Context, jobs []job, number func() map[string]int) func() (string, error) {
	var said []string
	var failed error
	var done sync.WaitGroup
	done.Go(func() {
		for every := round.DefaultInterval / stretch; ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(every):
			}
			now, err := r.observe(ctx, jobs, number())
			if err == nil && now > 0 {
				var what string
				if what, err = r.decide(ctx, now); what != "" {
					said = append(said, what)
				}
			}
			if err != nil && ctx.Err() == nil {
				failed = err
				return
			}
		}
	})
	return func() (string, error) {
		done.Wait()
		return fmt.Sprintf("%d rounds; %s", r.rounds, strings.Join(said, ", ")), failed
	}
}

// observe adds the events of accounting to the ledger, and returns the time in seconds after the first submission.
func (r *rule) observe(ctx context.Context, jobs []job, number map[string]int) (now float64, err error) {
	rows, err := r.Run(ctx, "env", "SLURM_TIME_FORMAT=%s", "sacct", "-X", "-a", "-n", "-P", "-S", "now-3hours",
		"--format=JobIDRaw,Submit,Start,End")
	if err != nil {
		return 0, err
	}
	began := float64(r.began.Unix())
	now = float64(time.Now().Unix()) - began - 1 // slurmdbd is behind
	for row := range strings.Lines(string(rows)) {
		f := strings.Split(strings.TrimSpace(row), "|")
		i, ok := number[f[0]]
		if !ok || len(f) < 4 {
			continue
		}
		var at [3]float64
		for k := range at {
			if v, err := strconv.ParseFloat(f[1+k], 64); err == nil {
				at[k] = v - began
			} else {
				at[k] = math.NaN()
			}
		}
		r.observed(f[0], &jobs[i], at[0], at[1], at[2], now)
	}
	return now, nil
}

// siteLinesWith are a weight alone with the site's intervals.
func siteLinesWith(line string) string { return line + "\n" + siteIntervals }

// fixedSettings are presets and the site's settings, as files of settings.
func (l *lane) fixedSettings() (map[string]string, error) {
	narrowed, err := l.site.Narrowed()
	if err != nil {
		return nil, err
	}
	s, err := site.Narrow(narrowed.Space())
	if err != nil {
		return nil, err
	}
	out := map[string]string{"by hand": siteLines}
	for _, p := range s.Presets {
		text, err := l.render(p.Config.Values())
		if err != nil {
			return nil, err
		}
		out[p.Name] = string(text)
	}
	many := siteLinesWith("PriorityWeightTRES=GRES/gpu=1000000")
	out["many-gpus"] = many
	return out, nil
}

// best is the fixed settings of the least simulated mean wait of jobs.
func (l *lane) best(ctx context.Context, jobs []job) (name, text string, err error) {
	all, err := l.fixedSettings()
	if err != nil {
		return "", "", err
	}
	least := math.Inf(1)
	for _, n := range slices.Sorted(maps.Keys(all)) {
		waits, _, err := promise(ctx, l.site.Cluster, planned(jobs), l.settings, []change{{Conf: all[n]}})
		if err != nil {
			return "", "", err
		}
		if mean := stats.Mean(waits); mean < least {
			name, text, least = n, all[n], mean
		}
	}
	return name, text, nil
}

// half are the jobs of one of the two workloads, from its beginning on.
func (o *options) half(jobs []job, second bool) (out []job) {
	for _, j := range jobs {
		if (j.at >= o.span.Seconds()/2) == second {
			out = append(out, j)
		}
	}
	return out
}

// arrange puts the settings of an arm of a regime change in force. begun, if not nil, is called when the run begins.
func (l *lane) arrange(ctx context.Context, arm string, w *windows) (chosen string,
	begun func(ctx context.Context, number func() map[string]int) func() (string, error), err error) {
	switch arm {
	case "default", "site":
		return "", nil, nil
	case "fixed", "switch":
		name, text, err := l.best(ctx, l.half(w.run, false))
		if err != nil {
			return "", nil, err
		}
		if err := l.put(ctx, text); err != nil || arm == "fixed" {
			return name, nil, err
		}
		then, next, err := l.best(ctx, l.half(w.run, true))
		if err != nil {
			return "", nil, err
		}
		return name + ", then " + then, func(ctx context.Context, _ func() map[string]int) func() (string, error) {
			done := make(chan error, 1)
			go func() {
				select {
				case <-ctx.Done():
					done <- nil
				case <-time.After(l.span / 2):
					done <- l.put(ctx, next)
				}
			}()
			return func() (string, error) { return "", <-done }
		}, nil
	case "once", "live":
		r, err := l.newRule()
		if err != nil {
			return "", nil, err
		}
		if err := r.recall(ctx, w.history); err != nil {
			return "", nil, err
		}
		if chosen, r.incumbent, err = r.answer(ctx); err == nil {
			err = r.apply(ctx, r.order(r.incumbent))
		}
		if err != nil || arm == "once" {
			return chosen, nil, err
		}
		return chosen, func(ctx context.Context, number func() map[string]int) func() (string, error) {
			return r.follow(ctx, w.run, number)
		}, nil
	}
	return "", nil, fmt.Errorf("--arms: %q is none of a regime change", arm)
}

// forecast prints the simulated mean waits of a workload under each fixed settings and under the best of each half.
func (l *lane) forecast(ctx context.Context, w *windows) error {
	all, err := l.fixedSettings()
	if err != nil {
		return err
	}
	show := func(name string, changes ...change) error {
		waits, _, err := promise(ctx, l.site.Cluster, planned(w.run), l.settings, changes)
		if err != nil {
			return err
		}
		n := len(l.half(w.run, false))
		fmt.Fprintf(os.Stderr, "%-24s %6.1f %6.1f %6.1f\n", name, stats.Mean(waits), stats.Mean(waits[:n]),
			stats.Mean(waits[n:]))
		return nil
	}
	for _, n := range slices.Sorted(maps.Keys(all)) {
		if err := show(n, change{Conf: all[n]}); err != nil {
			return err
		}
	}
	a, first, err := l.best(ctx, l.half(w.run, false))
	if err != nil {
		return err
	}
	b, then, err := l.best(ctx, l.half(w.run, true))
	if err != nil {
		return err
	}
	r, err := l.newRule()
	if err != nil {
		return err
	}
	if err := r.recall(ctx, w.history); err != nil {
		return err
	}
	chosen, answer, err := r.answer(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "once:", chosen)
	if text, err := l.render(r.order(answer)); err == nil {
		if err := show("once", change{Conf: string(text)}); err != nil {
			return err
		}
	}
	return show(a+">"+b, change{Conf: first}, change{At: l.span.Seconds() / 2, Conf: then})
}
