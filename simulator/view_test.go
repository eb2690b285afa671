package simulator

import (
	"reflect"
	"strings"
	"testing"

	"github.com/autosched/autosched/workload"
)

// TestViewIsReadOnly: no method that a policy can call runs, forks or changes a
// simulation, or returns a job with its true duration.
func TestViewIsReadOnly(t *testing.T) {
	view := reflect.TypeFor[*View]()
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
					reflect.TypeFor[workload.Workload](), reflect.TypeFor[workload.State](), reflect.TypeFor[Sim](),
					reflect.TypeFor[Outcome]():
					t.Errorf("View.%s returns a %v, which tells true durations or runs", m.Name, out)
				}
				if kind := out.Kind(); kind != reflect.Pointer && kind != reflect.Slice {
					break
				}
			}
		}
	}
	oracle := reflect.TypeFor[*Oracle]()
	if oracle.NumMethod() != 1 || oracle.Method(0).Name != "JobLeft" {
		t.Errorf("the oracle has %d methods: only JobLeft is expected", oracle.NumMethod())
	}
	if _, ok := view.MethodByName("JobLeft"); ok {
		t.Error("View tells true durations")
	}
}
