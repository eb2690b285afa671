package simulator_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// TestViewIsReadOnly: no method that a policy can call runs, forks or changes a
// simulation, or returns a job with its true duration.
func TestViewIsReadOnly(t *testing.T) {
	view := reflect.TypeFor[*simulator.View]()
	for i := range view.NumMethod() {
		m := view.Method(i)
		for _, verb := range []string{"Set", "Start", "Resume", "Run", "Fork", "Reconfigure", "Partition", "Allow",
			"Wake"} {
			if strings.HasPrefix(m.Name, verb) {
				t.Errorf("View.%s changes the simulation", m.Name)
			}
		}
		for k := range m.Type.NumOut() {
			for out := m.Type.Out(k); ; out = out.Elem() {
				switch out {
				case reflect.TypeFor[workload.Job](), reflect.TypeFor[workload.ActiveJob](),
					reflect.TypeFor[workload.Workload](), reflect.TypeFor[workload.State](),
					reflect.TypeFor[simulator.Sim](), reflect.TypeFor[simulator.Outcome]():
					t.Errorf("View.%s returns a %v, which tells true durations or runs", m.Name, out)
				}
				if kind := out.Kind(); kind != reflect.Pointer && kind != reflect.Slice {
					break
				}
			}
		}
	}
	oracle := reflect.TypeFor[*simulator.Oracle]()
	if oracle.NumMethod() != 1 || oracle.Method(0).Name != "JobLeft" {
		t.Errorf("the oracle has %d methods: only JobLeft is expected", oracle.NumMethod())
	}
	if _, ok := view.MethodByName("JobLeft"); ok {
		t.Error("View tells true durations")
	}
	if view.ConvertibleTo(oracle) || view.Elem().ConvertibleTo(oracle.Elem()) {
		t.Error("a View converts to an Oracle")
	}
}

// TestEndIsUnknownUntilThen: a job's end is 0 to policies until the job has ended.
func TestEndIsUnknownUntilThen(t *testing.T) {
	w := jobs(t, job{0, 100 * second, 2}, job{0, 300 * second, 2}, job{0, 100 * second, 4})
	type end struct {
		at time.Duration
		ok bool
	}
	var got []end
	p := &script{at: steps{200 * second: func(v *simulator.View, _ *simulator.Plan) {
		for id := range v.Submitted() {
			at, ok := v.JobEnded(id)
			got = append(got, end{at, ok})
		}
	}}}
	run(t, oneNode, w, p, simulator.Options{})
	if want := []end{{100 * second, true}, {}, {}}; !slices.Equal(got, want) {
		t.Errorf("at 200 s, a has ended, b runs and c waits: their ends are %v, want %v", got, want)
	}
}
