package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/autosched/autosched/adapter"
	"github.com/autosched/autosched/adapter/kubernetes/apply"
	"github.com/autosched/autosched/adapter/kubernetes/rig"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers/volcano/conf"
	"github.com/autosched/autosched/space"
)

// lane is a run under way.
type lane struct {
	*rig.Rig
	*rule
	driver *apply.Driver
	result *result
}

// run makes a run.
func (o *options) run(ctx context.Context, r *result) (err error) {
	jobs, err := o.read(r)
	if err != nil {
		return err
	}
	queues, err := os.ReadFile(filepath.Join(o.shared, "queues", map[string]string{"kueue": "kueue.besteffort.json",
		"volcano": "volcano.equal.json"}[o.scheduler]))
	if err != nil {
		return err
	}
	kueue := o.scheduler == "kueue"
	c, err := rig.Open(ctx, rig.Options{Kueue: kueue, Volcano: !kueue})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.Create(ctx, queues); err != nil {
		return err
	}
	l := &lane{Rig: c, result: r}
	ended := func() error { return nil }
	if r.Arm != before && r.Arm != history {
		if err := l.open(ctx, o, r.Workload); err != nil {
			return err
		}
		if err := l.arrange(ctx); err != nil {
			return err
		}
	}
	if r.Arm == live {
		ended = l.follow(ctx)
	}
	rows, err := rig.Driver{Client: c.Client("admin"), Kueue: kueue}.Run(ctx, jobs)
	if err = errors.Join(err, ended()); err != nil {
		return err
	}
	if r.Arm == history {
		objects, err := c.Export(ctx)
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.objects(r.Workload, r.Seed), objects, 0o644); err != nil {
			return err
		}
	}
	r.of(jobs, rows)
	return o.keep(r, rows)
}

// read reads the jobs of a run.
func (o *options) read(r *result) ([]rig.Job, error) {
	f, err := os.Open(filepath.Join(o.shared, "workloads", r.Workload+".csv"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	jobs, err := rig.ReadJobs(f)
	return rig.Jitter(jobs, o.jitter, r.Seed), err
}

// of adds the figures of the jobs.
func (r *result) of(jobs []rig.Job, rows []rig.Row) {
	var over []float64
	for i := range rows {
		r.Late = max(r.Late, (rows[i].Submit - jobs[i].At).Seconds())
		last := rows[i].Stays[len(rows[i].Stays)-1]
		over = append(over, math.Abs((last.End - last.Start - rows[i].Run).Seconds()))
	}
	slices.Sort(over)
	r.Over = stats.Quantile(over, .95)
	r.Classes = rig.Classes(rows)
}

// keep writes a row of each job.
func (o *options) keep(r *result, rows []rig.Row) error {
	var text bytes.Buffer
	if err := rig.WriteRows(&text, rows); err != nil {
		return err
	}
	name := fmt.Sprintf("%s.%s.%s.%d.csv", o.scheduler, r.Arm, r.Workload, r.Seed)
	return os.WriteFile(filepath.Join(o.dir, name), text.Bytes(), 0o644)
}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// configMap is where Volcano's chart puts its text.
func (l *lane) configMap() (dynamic.ResourceInterface, string) {
	return l.Client("admin").Resource(configMaps).Namespace("volcano-system"), "volcano-scheduler-configmap"
}

// open makes the rule with the history, and the adapter's way to the cluster.
func (l *lane) open(ctx context.Context, o *options, workload string) error {
	if o.scheduler == "volcano" {
		objects, name := l.configMap()
		if _, err := objects.Create(ctx, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1",
			"kind": "ConfigMap", "metadata": map[string]any{"name": name},
			"data": map[string]any{conf.Key: rig.DefaultConf}}},
			metav1.CreateOptions{FieldManager: "helm"}); err != nil {
			return err
		}
	}
	objects, err := l.Export(ctx)
	if err != nil {
		return err
	}
	if l.rule, err = newRule(o.scheduler, objects); err != nil {
		return err
	}
	var files []string
	for seed := range o.histories {
		files = append(files, o.objects(workload, historySeed+seed+1))
	}
	if err := l.recall(files); err != nil {
		return err
	}
	var tuned []string
	for _, p := range l.space.Params() {
		tuned = append(tuned, p.ID)
	}
	l.driver, err = apply.Open(ctx, apply.Options{Client: l.Client("admin"), Config: l.Config("admin"),
		Scheduler: l.adapter, Tuned: tuned, HandOver: []string{"*"}})
	return err
}

// arrange puts the settings of an arm in force before the first job.
func (l *lane) arrange(ctx context.Context) error {
	if l.result.Arm == live {
		return l.round(ctx, 0)
	}
	a, err := l.ask(ctx)
	if err != nil {
		return err
	}
	r := l.result
	if r.Arm == once {
		r.Chosen = a.Text
		if !a.Change {
			return nil
		}
		r.Gain, r.Low, r.High = a.Gain, a.Low, a.High
		return l.put(ctx, a.Configuration, 0, "")
	}
	best, err := bestPreset(a.Candidates)
	if err != nil {
		return fmt.Errorf("%s: %w", a.Text, err)
	}
	r.Gain, r.Chosen = best.Gain, best.Origin
	return l.put(ctx, best.Configuration, 0, "")
}

// bestPreset is the preset that gains the most.
func bestPreset(candidates []replay.VerdictCandidate) (best *replay.VerdictCandidate, err error) {
	for i := range candidates {
		if c := &candidates[i]; strings.HasPrefix(c.Origin, "preset:") && (best == nil || c.Gain > best.Gain) {
			best = c
		}
	}
	if best == nil {
		return nil, errors.New("the answer compares no preset")
	}
	return best, nil
}

// round makes one of the rule at an instant of the run, and puts its result in force.
func (l *lane) round(ctx context.Context, now time.Duration) error {
	d, err := l.decide(ctx, now)
	if err != nil || !d.Adopt {
		return err
	}
	if r := l.result; len(r.Changes) == 0 {
		r.Gain, r.Low, r.High = 1-1/d.Ratio, 1-1/d.Interval.Low, 1-1/d.Interval.High
	}
	return l.put(ctx, d.Config, now, d.Reason)
}

// put applies a configuration as the adapter does, and, for Volcano, mounts its text as a kubelet does.
func (l *lane) put(ctx context.Context, to space.Config, now time.Duration, reason string) error {
	parameters, err := adapter.ToProto(to.Values())
	if err != nil {
		return err
	}
	c := change{At: now.Seconds(), Reason: reason}
	for _, d := range space.DiffConfigs(l.incumbent, to) {
		c.Settings = append(c.Settings, d.Field+"="+d.To)
	}
	revision := int64(len(l.result.Changes) + 1)
	sent := &pb.Configuration{Name: fmt.Sprint("schedulers/pay/configurations/", revision), Revision: revision,
		Origin: pb.Configuration_TUNED, Parameters: parameters, Epoch: &pb.Epoch{Id: "pay", Counter: 1}}
	got, err := l.driver.Apply(ctx, sent)
	if ack := client.Outcome(sent, got, err); ack.GetError() != "" {
		return fmt.Errorf("%s: %s", ack.GetState(), ack.GetError())
	}
	if l.scheduler.Name == "volcano" {
		objects, name := l.configMap()
		o, err := objects.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		text, _, err := unstructured.NestedString(o.Object, "data", conf.Key)
		if err != nil {
			return err
		}
		if err := l.SetConf(text); err != nil {
			return err
		}
	}
	l.incumbent = to
	l.result.Changes = append(l.result.Changes, c)
	return nil
}

// follow makes rounds at the rule's pace until the function returned is called, which returns the error of one that
// failed.
func (l *lane) follow(ctx context.Context) func() error {
	ctx, cancel := context.WithCancel(ctx)
	began := time.Now().Truncate(time.Second)
	first := l.rounds
	done := make(chan error, 1)
	go func() {
		tick := time.NewTicker(round.DefaultInterval / stretch)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				done <- nil
				return
			case <-tick.C: // one that comes while a round is made is left out
			}
			if err := l.look(ctx, began); err != nil && ctx.Err() == nil {
				done <- fmt.Errorf("a round: %w", err)
				return
			}
		}
	}()
	return func() error {
		cancel()
		err := <-done
		l.result.Rounds = l.rounds - first
		return err
	}
}

// look observes the cluster's objects and makes a round.
func (l *lane) look(ctx context.Context, began time.Time) error {
	objects, err := l.Export(ctx)
	if err != nil {
		return err
	}
	now := time.Since(began)
	s, err := read(l.scheduler.Name, objects)
	if err != nil {
		return err
	}
	l.observe("run", s.events, time.Duration(began.UnixNano()))
	return l.round(ctx, now)
}
