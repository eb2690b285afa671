package workload

import (
	"strings"
	"testing"
	"time"
)

func TestJobValidate(t *testing.T) {
	good := Job{ID: "a", GPUs: 1, Duration: 1}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for field, edit := range map[string]func(*Job){
		"id":             func(j *Job) { j.ID = "" },
		"gpus":           func(j *Job) { j.GPUs = 0 },
		"gpus: 2e+06":    func(j *Job) { j.GPUs = GPUs(2 * MaxGPUs) },
		"duration":       func(j *Job) { j.Duration = 0 },
		"duration: 8760": func(j *Job) { j.Duration = MaxDuration + time.Hour },
		"submit":         func(j *Job) { j.Submit = -MaxSubmit - 1 },
		"gpus, duration": func(j *Job) { j.GPUs, j.Duration = GPUs(MaxGPUs), MaxDuration },
	} {
		j := good
		edit(&j)
		if err := j.Validate(); err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestWholeGPUs(t *testing.T) {
	for m, want := range map[MilliGPU]int{1: 1, 999: 1, 1000: 1, 1001: 2, GPUs(8): 8} {
		if got := m.Whole(); got != want {
			t.Errorf("%d milli-GPUs are %d whole ones, want %d", m, got, want)
		}
	}
}

func TestNewWorkload(t *testing.T) {
	zero := time.Date(2020, 1, 1, 12, 0, 0, 0, time.FixedZone("", 3600))
	w, err := New("n", zero, []Job{{ID: "b", Submit: 2, Duration: 1, GPUs: 1}, {ID: "c", Submit: 1, Duration: 1, GPUs: 1}, {ID: "a", Submit: 2, Duration: 1, GPUs: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if j := w.Jobs(); j[0].ID != "c" || j[1].ID != "b" || j[2].ID != "a" {
		t.Errorf("order %v", j)
	}
	if first, last := w.Span(); first != 1 || last != 2 || w.Zero().Hour() != 11 || !w.Clock(time.Hour).Equal(zero.Add(time.Hour)) {
		t.Errorf("span %v..%v, zero %v", first, last, w.Zero())
	}
	// The digest names results: it must never change.
	if got := w.Digest(); got != "3d77ef708ef0e4cf4f1af00d3bda9ef15f2809e4a18fad8f63612b2835ffc9b9" {
		t.Errorf("digest %s", got)
	}
	if w.AsSynthetic().Digest() != w.Digest() || !w.AsSynthetic().Synthetic() || w.Synthetic() {
		t.Error("the label changes the digest, or the workload")
	}
	for says, jobs := range map[string][]Job{"gpus": {{ID: "a", Duration: 1}}, "used twice": {{ID: "a", Duration: 1, GPUs: 1}, {ID: "a", Duration: 1, GPUs: 1}}} {
		if _, err := New("n", zero, jobs); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	empty, err := New("n", zero, nil)
	if err != nil || empty.Len() != 0 {
		t.Fatal(err)
	}
	if first, last := empty.Span(); first != 0 || last != 0 {
		t.Error("an empty workload has a span")
	}
}
