package durations

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/workload"
)

// sweeps is a made-up history: sweeps of 30 jobs of a tenant whose duration is
// that of the tenant's, and single jobs between them.
func sweeps(n int, lengths ...time.Duration) []Record {
	r := rand.New(rand.NewPCG(3, 4))
	var h []Record
	at := time.Duration(0)
	for i := range n {
		tenant := i % len(lengths)
		for k := range 30 {
			noise := time.Duration(float64(lengths[tenant]) * math.Exp(.2*r.NormFloat64()))
			h = append(h, job(fmt.Sprintf("s%d-%d", i, k), fmt.Sprint("t", tenant), 1,
				at+time.Duration(k)*20*time.Second, noise))
		}
		at += 40 * time.Minute
	}
	return h
}

func trained(t testing.TB, history []Record) *Model {
	t.Helper()
	m, err := Train(context.Background(), history, zero, "made up", LearnOptions{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// example is a history and the model learnt from it, made once.
func example(t testing.TB) ([]Record, *Model) {
	exampleOnce.Do(func() {
		exampleHistory = sweeps(24, 2*time.Minute, 90*time.Minute, 15*time.Minute)
		exampleModel = trained(t, exampleHistory)
	})
	return exampleHistory, exampleModel
}

var (
	exampleOnce    sync.Once
	exampleHistory []Record
	exampleModel   *Model
)

func TestModelFile(t *testing.T) {
	testshared.Full(t)
	history, m := example(t)
	if s := m.Scores["arrival"]; s.Accuracy < .9 || s.N == 0 {
		t.Errorf("the tenant tells the class, and the accuracy is %.2f of %d", s.Accuracy, s.N)
	}
	if m.Trained.Jobs+m.Held.Jobs != len(history) || !m.Held.From.After(m.Trained.To) {
		t.Errorf("trained %+v, held back %+v", m.Trained, m.Held)
	}
	var file, again bytes.Buffer
	if err := m.Write(&file); err != nil {
		t.Fatal(err)
	}
	if err := trained(t, history).Write(&again); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(file.Bytes(), again.Bytes()) {
		t.Error("trained twice, two models")
	}
	back, err := ReadModel(bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	row := make([]float64, len(Features))
	tr, err := NewTracker(history)
	if err != nil {
		t.Fatal(err)
	}
	tr.Advance(10 * time.Hour)
	p, q := make([]float64, Classes), make([]float64, Classes)
	for i := 100; i < 400; i += 7 {
		tr.Row(row, i)
		m.Classifier().Probabilities(p, row)
		back.Classifier().Probabilities(q, row)
		if fmt.Sprint(p) != fmt.Sprint(q) {
			t.Fatalf("job %d: %v, read back %v", i, p, q)
		}
	}
	head, text, _ := bytes.Cut(file.Bytes(), []byte("\n"))
	if _, err := ReadModel(bytes.NewReader(text)); err != nil {
		t.Fatalf("a bare LightGBM text: %v", err)
	}
	more := strings.Replace(string(head), "{", `{"parent":"0123456789abcdef","typical":[1],`, 1)
	if _, err := ReadModel(strings.NewReader(more + "\n" + string(text))); err != nil {
		t.Errorf("a header with other fields: %v", err)
	}
	for _, tt := range []struct{ name, file, want string }{
		{"empty", "", "model"},
		{"cut header", string(head[:100]), "cut short"},
		{"another header", `{"format":"x"}` + "\n" + string(text), "format"},
		{"no format", `{"formats":"x"}` + "\n" + string(text), `format: ""`},
		{"a changed model", string(head) + "\n" + strings.Replace(string(text), "leaf_value=", "leaf_value=1", 1), ""},
		{"a cut model", string(head) + "\n" + string(text[:len(text)/2]), "model"},
		{"a strange feature", strings.Replace(string(text), "near_p0", "weather", 1), `"weather" is no feature; train it anew`},
		{"another's header", strings.Replace(string(head), `"class_bounds_s":[300`, `"class_bounds_s":[301`, 1) + "\n" +
			string(text), "class_bounds_s"},
	} {
		if _, err := ReadModel(strings.NewReader(tt.file)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one that says %q", tt.name, err, tt.want)
		}
	}
}

// TestRetrainRefusesWorse: the old model stays if the new one is worse on the same
// jobs.
func TestRetrainRefusesWorse(t *testing.T) {
	testshared.Full(t)
	ctx := context.Background()
	history, good := example(t)
	hampered := LearnOptions{Seed: 1, columns: []int{column("since_submit"), column("gpus")}}
	c, err := Retrain(ctx, good, history, zero, "", hampered)
	if err != nil {
		t.Fatal(err)
	}
	if c.Replaced || c.Kept != good || c.New <= c.Old {
		t.Errorf("a model that sees little replaced one that sees all: %+v", c)
	}
	bad, err := Train(ctx, history, zero, "", hampered)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = Retrain(ctx, bad, history, zero, "", LearnOptions{Seed: 1}); err != nil || !c.Replaced ||
		c.Kept == bad {
		t.Errorf("a better model did not replace a worse one: %+v, %v", c, err)
	}
	if c.Kept.Version != good.Version {
		t.Error("the same training gave another version")
	}
	if _, err := Retrain(ctx, good, history[:good.Trained.Jobs], zero, "", hampered); !errors.Is(err, ErrLearnt) {
		t.Errorf("compared on jobs that the old model has learnt from: %v", err)
	}
	if _, err := Train(ctx, history[:100], zero, "", LearnOptions{}); !errors.Is(err, ErrTooFew) {
		t.Errorf("trained on 100 jobs: %v", err)
	}
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Train(stopped, history, zero, "", LearnOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("trained on after it was stopped: %v", err)
	}
}

func TestOutlook(t *testing.T) {
	testshared.Full(t)
	whole := sweeps(36, 2*time.Minute, 90*time.Minute, 15*time.Minute)
	early := Known(whole, 30*time.Minute)
	cold, err := NewOutlook(nil, early, 30*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	if got := cold.Draw(r, early[0].Job, time.Hour); got <= time.Hour {
		t.Errorf("has run an hour, drew %v", got)
	}

	at := 20*time.Hour + 10*time.Minute // t0's sweep began at 20:00
	history := Known(whole, at)
	next := workload.Job{ID: "next", Tenant: "t1", GPUs: workload.GPUs(1), Submit: at}
	submitted := Record{Job: &next, Begin: at, Until: at}
	o, err := NewOutlook(trained(t, history), append(history, submitted), at)
	if err != nil {
		t.Fatal(err)
	}
	var q [Classes]float64
	o.Probabilities(q[:], submitted.Job, 0)
	if argmax(q[:]) != ClassOf(90*time.Minute) {
		t.Errorf("a job of t1 that was just submitted has %v", q)
	}
	active := 0
	for i := range history {
		if history[i].Ended {
			continue
		}
		active++
		for range 20 {
			if got := o.Draw(r, history[i].Job, history[i].Ran); got <= history[i].Ran {
				t.Fatalf("%s has run %v, drew %v", history[i].ID, history[i].Ran, got)
			}
		}
	}
	if active == 0 {
		t.Error("nothing is active: the test tests nothing")
	}
	if o.Len() != len(history)-active {
		t.Errorf("%d durations known, of %d ended jobs", o.Len(), len(history)-active)
	}
}
