package simulator

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

// restless preempts every running job for the waiting ones at every instant.
type restless struct{ s *View }

func (p *restless) Reset(v *View, _ *Plan) { p.s = v }
func (p *restless) Admit(ID, Seen)         {}
func (p *restless) Finish(ID)              {}
func (p *restless) Plan(plan *Plan) {
	var stop, start []ID
	for id := range p.s.Submitted() {
		switch {
		case p.s.JobRunning(id):
			stop = append(stop, id)
		case p.s.JobActive(id):
			start = append(start, id)
		}
	}
	plan.Exchange(stop, start)
}

// TestForkSharesNoMemory finds the memory of everything that a fork may write to
// by reflection: none of it is the original's.
func TestForkSharesNoMemory(t *testing.T) {
	var jobs []workload.Job
	for i := range 30 {
		jobs = append(jobs, workload.Job{ID: string(rune('a' + i)), Tenant: string(rune('x' + i%3)),
			Submit: time.Duration(i) * time.Minute, Duration: time.Hour,
			GPUs: workload.GPUs(1 + i%11), Status: workload.Completed})
	}
	w, err := workload.New("fork", time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	c := workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 3, GPUsPerNode: 4}},
		VCs: []workload.VC{{Tenant: "x", GPUs: 4}, {Tenant: "y", GPUs: 4}}}
	var s, fork Sim
	if err := s.Start(c, w, &restless{}, Options{Quota: QuotaBorrow, PerTenant: true, Attribute: true}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // into new memory, then into memory that is there
		if err := s.RunUntil(context.Background(), s.Now()+20*time.Minute); err != nil {
			t.Fatal(err)
		}
		s.Fork(&fork, &restless{})
		if err := fork.RunUntil(context.Background(), fork.Now()+20*time.Minute); err != nil {
			t.Fatal(err)
		}
		own := map[uintptr]string{}
		walkMemory(reflect.ValueOf(&s.records).Elem(), "records", func(at uintptr, name string) { own[at] = name })
		walkMemory(reflect.ValueOf(&s.buffers).Elem(), "buffers", func(at uintptr, name string) { own[at] = name })
		if len(own) < 20 {
			t.Fatalf("only %d parts of memory were found", len(own))
		}
		shared := func(at uintptr, name string) {
			if other, ok := own[at]; ok {
				t.Errorf("the fork's %s is the original's %s", name, other)
			}
		}
		walkMemory(reflect.ValueOf(&fork.records).Elem(), "records", shared)
		walkMemory(reflect.ValueOf(&fork.buffers).Elem(), "buffers", shared)
	}
	walkMemory(reflect.ValueOf(&s.counters).Elem(), "counters", func(_ uintptr, name string) {
		t.Errorf("%s has memory of its own: it belongs to records or buffers", name)
	})
}

// walkMemory calls found with each slice and map of a value that has memory. A
// pointer back to the simulation that owns the value is not followed.
func walkMemory(v reflect.Value, name string, found func(at uintptr, name string)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			walkMemory(v.Field(i), name+"."+v.Type().Field(i).Name, found)
		}
	case reflect.Array:
		for i := range v.Len() {
			walkMemory(v.Index(i), name, found)
		}
	case reflect.Slice:
		if v.Cap() == 0 {
			return
		}
		found(v.Pointer(), name)
		v = v.Slice(0, v.Cap())
		for i := range v.Len() {
			walkMemory(v.Index(i), name+"[]", found)
		}
	case reflect.Map:
		if !v.IsNil() {
			found(v.Pointer(), name)
		}
	case reflect.Pointer, reflect.Func, reflect.Chan, reflect.Interface, reflect.UnsafePointer:
		if !v.IsNil() && v.Type() != reflect.TypeFor[*Sim]() {
			found(v.Pointer(), name)
		}
	}
}
