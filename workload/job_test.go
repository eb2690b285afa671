package workload

import (
	"reflect"
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
		"cpus":           func(j *Job) { j.Requested = Request{MilliCPUs: -1}.Shared() },
		"memory":         func(j *Job) { j.Requested = Request{Memory: MaxMemory + 1}.Shared() },
		"time limit":     func(j *Job) { j.Requested = Request{TimeLimit: MaxDuration + 1}.Shared() },
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
	// Seven sevenths of a GPU need one, and whole ones beside a part one more.
	for m, want := range map[MilliGPU]int{0: 0, 1: 1, 7 * 143: 1, 999: 1, GPUs(4) + 143: 5, 14 * 143: 2, GPUs(999): 999,
		GPUs(999) + 143: 1000} {
		if got := m.Cover(); got != want {
			t.Errorf("a sum of %d milli-GPUs needs %d GPUs, want %d", m, got, want)
		}
	}
	if MilliGPU(250).Count() != .25 {
		t.Error(MilliGPU(250).Count())
	}
}

// Every field of a job but its wait is part of the digest.
func TestDigestCoversJobs(t *testing.T) {
	digest := func(j Job) string { return NewSorted("t", time.Unix(0, 0), []Job{j}, false).Digest() }
	job, request := Job{ID: "a", User: "u", Duration: 5, GPUs: 1000}, Request{}
	seen := map[string]string{digest(job): "nothing"}
	change := func(v reflect.Value, path string) {
		for i := range v.NumField() {
			name := path + v.Type().Field(i).Name
			f := v.Field(i)
			if name == "Requested" {
				continue
			}
			old := reflect.ValueOf(f.Interface())
			switch f.Kind() {
			case reflect.String:
				f.SetString("other")
			case reflect.Bool:
				f.SetBool(true)
			case reflect.Uint8:
				f.SetUint(3)
			default:
				f.SetInt(7)
			}
			job.Requested = request.Shared()
			d := digest(job)
			if other, same := seen[d]; same != (name == "Wait" || name == "HasWait" || name == "Nodes") {
				t.Errorf("%s: the digest is that of another %s: %v", name, other, same)
			}
			seen[d] = name
			f.Set(old)
		}
	}
	change(reflect.ValueOf(&job).Elem(), "")
	change(reflect.ValueOf(&request).Elem(), "Request.")
}

func TestOfferedLoad(t *testing.T) {
	for span, want := range map[time.Duration]float64{0: .5, time.Second: .5, time.Hour: .5, 4 * time.Hour: .125} {
		if got := OfferedLoad(3600, span, 2); got != want {
			t.Errorf("an hour on one of 2 GPUs in %v: %g, want %g", span, got, want)
		}
	}
}

func TestNewWorkload(t *testing.T) {
	zero := time.Date(2020, 1, 1, 12, 0, 0, 0, time.FixedZone("", 3600))
	w, err := New("n", zero, []Job{{ID: "b", Submit: 2, Duration: 1, GPUs: 1},
		{ID: "c", Submit: 1, Duration: 1, GPUs: 1}, {ID: "a", Submit: 2, Duration: 1, GPUs: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if j := w.Jobs(); j[0].ID != "c" || j[1].ID != "b" || j[2].ID != "a" {
		t.Errorf("order %v", j)
	}
	if first, last := w.Span(); first != 1 || last != 2 || w.Zero().Hour() != 11 ||
		!w.Clock(time.Hour).Equal(zero.Add(time.Hour)) {
		t.Errorf("span %v..%v, zero %v", first, last, w.Zero())
	}
	// The digest names results: it must never change.
	if got := w.Digest(); got != "3d77ef708ef0e4cf4f1af00d3bda9ef15f2809e4a18fad8f63612b2835ffc9b9" {
		t.Errorf("digest %s", got)
	}
	if w.AsSynthetic().Digest() != w.Digest() || !w.AsSynthetic().Synthetic() || w.Synthetic() {
		t.Error("the label changes the digest, or the workload")
	}
	for says, jobs := range map[string][]Job{"gpus": {{ID: "a", Duration: 1}},
		"used twice": {{ID: "a", Duration: 1, GPUs: 1}, {ID: "a", Duration: 1, GPUs: 1}}} {
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

// A trace of ten million jobs is held in memory.
func TestJobIsSmall(t *testing.T) {
	if n := reflect.TypeFor[Job]().Size(); n > 152 {
		t.Errorf("a job takes %d bytes, at most 152", n)
	}
}
