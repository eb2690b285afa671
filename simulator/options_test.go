package simulator

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

// TestOptionsDigest changes every field of Options, and of the structs in it, by
// itself: the digest differs if and only if the field decides results.
func TestOptionsDigest(t *testing.T) {
	observing := []string{"Observer", "PerTenant", "Attribute", "Series"}
	byHand := map[string]func(*Options){
		"Models": func(o *Options) { m := *DefaultModels(); m.Classes = m.Classes[1:]; o.Models = &m },
		"Estimate": func(o *Options) {
			o.Estimate = func(j *workload.Job) time.Duration { return j.Duration + 1 }
		},
		"Deferral": func(o *Options) { o.Deferral = hourly(0) },
		"Meter":    func(o *Options) { o.Meter = counter{} },
		"Past":     func(o *Options) { o.Past = NewPast([]EndedJob{{End: 1}}) },
		"Nodes":    func(o *Options) { o.Nodes = []workload.NodeEvent{{Kind: workload.NodeDown}} },
		"Observer": func(o *Options) { o.Observer = func(Event) {} },
		"Series":   func(o *Options) { o.Series = new(Series) },
	}
	jobs := slices.Values([]*workload.Job{{ID: "a", Duration: 1}, {ID: "b", Duration: 2}})
	seen := map[string]string{new(Options).Digest(8, jobs): "the zero value"}
	check := func(name string, o *Options) {
		got := o.Digest(8, jobs)
		other, known := seen[got]
		if slices.Contains(observing, name) {
			if other != "the zero value" {
				t.Errorf("%s: the digest is not that of the zero value", name)
			}
			return
		}
		if known {
			t.Errorf("%s: the digest is that of %s", name, other)
		}
		seen[got] = name
	}
	var walk func(prefix string, index []int, typ reflect.Type)
	walk = func(prefix string, index []int, typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, index := prefix+f.Name, append(slices.Clone(index), i)
			if f.Type.Kind() == reflect.Struct {
				walk(name+".", index, f.Type)
				continue
			}
			var o Options
			switch v := reflect.ValueOf(&o).Elem().FieldByIndex(index); {
			case byHand[name] != nil:
				byHand[name](&o)
			case v.CanInt():
				v.SetInt(7)
			case v.CanUint():
				v.SetUint(1)
			case v.Kind() == reflect.Bool:
				v.SetBool(true)
			default:
				t.Errorf("%s: the test does not know how to change a %v", name, f.Type)
				continue
			}
			check(name, &o)
		}
	}
	walk("", nil, reflect.TypeFor[Options]())
	check("another estimate of one job", &Options{Estimate: func(j *workload.Job) time.Duration {
		return j.Duration + j.Duration/2
	}})
}
