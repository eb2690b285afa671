package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/adapter/kubernetes/rig"
	"github.com/autosched/autosched/workload"
)

// object is one of the given kind at the beginning of 2026.
func object(kind, name string, more map[string]any) map[string]any {
	o := map[string]any{"kind": kind, "metadata": map[string]any{"name": name, "namespace": "default", "uid": name,
		"creationTimestamp": "2026-01-01T00:00:00Z",
		"annotations":       map[string]any{"scheduling.k8s.io/group-name": "job"}}}
	for k, v := range more {
		o[k] = v
	}
	return o
}

// objects are a node, a queue and a job of 8 GPUs that waits 4 s and runs 6 s.
func objects(t *testing.T) []byte {
	t.Helper()
	gpus := map[string]any{"nvidia.com/gpu": "8"}
	text, err := json.Marshal(map[string]any{"kind": "List", "items": []any{
		object("Node", "g0", map[string]any{"status": map[string]any{"allocatable": gpus}}),
		object("Queue", "tenant-0", map[string]any{"spec": map[string]any{"weight": 2}}),
		object("Queue", "tenant-1", map[string]any{"spec": map[string]any{"weight": 1}}),
		object("PodGroup", "job", map[string]any{"spec": map[string]any{"queue": "tenant-0", "minMember": 1}}),
		object("Pod", "pod", map[string]any{
			"spec": map[string]any{"nodeName": "g0", "containers": []any{
				map[string]any{"resources": map[string]any{"requests": gpus}}}},
			"status": map[string]any{"phase": "Succeeded", "startTime": "2026-01-01T00:00:04Z",
				"containerStatuses": []any{map[string]any{"state": map[string]any{
					"terminated": map[string]any{"finishedAt": "2026-01-01T00:00:10Z"}}}}},
		})}})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestRule: the rule sees all times of a cluster multiplied by stretch, its own sessions too, one recorded run after
// another, and settings that count time are not tuned.
func TestRule(t *testing.T) {
	r, err := newRule("volcano", objects(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.cluster.Site.Settings["schedule-period"]; got != "24m0s" {
		t.Errorf("sessions come every %s", got)
	}
	if r.incumbent.Has("sla-waiting-time") || r.incumbent.Get("tenant-0.weight").Float() != 2 {
		t.Errorf("%v", r.incumbent)
	}
	file := filepath.Join(t.TempDir(), "run.json")
	if err := os.WriteFile(file, objects(t), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.recall([]string{file, file + ".none"}); err == nil {
		t.Error("a run that is not there was read")
	}
	if r.begin != stretch*20*time.Second {
		t.Errorf("the next run begins at %v", r.begin)
	}
	r.observe("run", []workload.Event{{ID: "s", Kind: workload.Submitted, Time: 1003 * time.Second,
		Job: workload.Job{ID: "j", Tenant: "tenant-0", GPUs: workload.GPUs(1)}}}, 1000*time.Second)
	ended := r.ledger.Finishes(0, r.begin)
	if len(ended) != 1 || ended[0].RunTime != stretch*6*time.Second || ended[0].End != stretch*10*time.Second {
		t.Errorf("ended %+v", ended)
	}
	active := r.input(4 * time.Second).State.Jobs
	if len(active) != 1 || active[0].Job.Submit != stretch*23*time.Second {
		t.Errorf("active %+v", active)
	}
	if d, err := r.decide(t.Context(), 4*time.Second); err != nil || d.Adopt || r.rounds != 1 {
		t.Errorf("without a history it decides %+v, %v", d, err)
	}
	if a, err := r.ask(t.Context()); err != nil || a.Change || a.EnoughFrom == "" {
		t.Errorf("without a history it answers %+v, %v", a, err)
	}
}

// made is a result whose jobs all wait the given seconds, and gain promised.
func made(arm string, seed uint64, wait, gain float64) *result {
	r := &result{Workload: "a", Arm: arm, Seed: seed, Gain: gain, Low: gain, High: gain}
	for _, name := range []string{"all", "below 8 GPUs", "from 8 GPUs", tenant(0), tenant(1), tenant(2)} {
		d := time.Duration(wait * float64(time.Second))
		r.Classes = append(r.Classes, rig.Class{Name: name, Jobs: 1, Wait: d, P95: d, JCT: d})
	}
	return r
}

// TestPromises: runs are compared by their arrivals, and a tenant that loses more than by chance is
// marked.
func TestPromises(t *testing.T) {
	by := map[string]map[string]runs{"a": {
		before: {made(before, 1, 10, 0), made(before, 2, 12, 0), made(before, 3, 100, 0)},
		preset: {made(preset, 2, 6, .5), made(preset, 1, 5, .5)},
		once:   {made(once, 1, 20, .1)},
	}}
	by["a"][once][0].Changes = []change{{At: 0, Settings: []string{"x=1", "y=2"}}, {At: 9.6, Settings: []string{"x=3"}}}
	by["a"][history] = runs{made(history, 11, 11, 0), made(history, 12, 11, 0)}
	var out bytes.Buffer
	promises(&out, []string{"a"}, by)
	for _, want := range []string{"| 50 % (50 to 50) | 50 % | -5.5 ± 6.4 | 100 % | -6, -6, -6 | none |",
		"| 10 % (10 to 10) | -100 % | +10.0 ± +Inf | -1000 % | +10 (more than 10 % and 1 s)*",
		"| x=1 y=2; seed 1 at 10 s: x=3 |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// TestResults: a run that the machine's load disturbed does not count.
func TestResults(t *testing.T) {
	o := options{dir: t.TempDir(), scheduler: "volcano"}
	var text bytes.Buffer
	late := made(before, 1, 10, 0)
	late.Late = 2
	for _, r := range []*result{late, made(before, 2, 10, 0)} {
		if err := r.write(&text); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(o.file(), text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := o.results(); err != nil || len(got) != 1 || got[0].Seed != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestNotes: the notes have the tables of the recorded results.
func TestNotes(t *testing.T) {
	notes, err := os.ReadFile("../../../../../docs/notes/kubernetes-model.md")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	o := options{dir: "testdata", scheduler: "volcano", workloads: "a,b,c"}
	if err := o.report(&out); err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "| ") {
			rows++
		}
		if !strings.Contains(string(notes), strings.TrimSpace(line)) {
			t.Errorf("the notes have no line\n%s", line)
		}
	}
	if rows < 3*5 { // of three workloads and five arms
		t.Errorf("the recorded results give %d rows:\n%s", rows, out.String())
	}
}
