package simulator

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

// TestDefaultModelSpec: the tables say what the built-in models do.
func TestDefaultModelSpec(t *testing.T) {
	want, got := DefaultModels(), new(ModelSpec).Models()
	if !reflect.DeepEqual(want.Classes, got.Classes) || !reflect.DeepEqual(want.Loads, got.Loads) {
		t.Error("classes or loads differ")
	}
	for gpus := 1; gpus <= 200; gpus++ {
		if a, b := want.Restart(gpus), got.Restart(gpus); a != b {
			t.Errorf("restart on %d GPUs: %v, want %v", gpus, b, a)
		}
		for c := range want.Classes {
			if a, b := want.Throughput(c, gpus), got.Throughput(c, gpus); a != b {
				t.Errorf("%s on %d GPUs: %v, want %v", want.Classes[c].Name, gpus, b, a)
			}
		}
	}
	for a := range want.Loads {
		for b := range want.Loads {
			x, y := want.PairSpeeds(a, b)
			if u, v := got.PairSpeeds(a, b); x != u || y != v {
				t.Errorf("loads %d and %d: %v, %v", a, b, u, v)
			}
		}
	}
}

func TestModelsRoundTrip(t *testing.T) {
	partly := &ModelSpec{Restart: &RestartSpec{Source: "ours", Steps: []RestartStep{{1, 5.5}}}}
	for _, f := range []*ModelSpec{DefaultModelSpec(), partly, {}} {
		var out bytes.Buffer
		if err := f.Write(&out); err != nil {
			t.Fatal(err)
		}
		got, err := ReadModels(&out)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(f, got) {
			t.Errorf("%+v became %+v", f, got)
		}
	}
	if d := partly.Models().Restart(64); d.Seconds() != 5.5 {
		t.Errorf("not proportional: %v on 64 GPUs", d)
	}
}

func TestModelsBadInput(t *testing.T) {
	class := `{"name":"x","skew":0.1,"spread_slowdown":1.2,"utilization":0.5,"weight":1`
	for text, want := range map[string]string{
		``:                       "EOF",
		`[]`:                     "array",
		`{} {}`:                  "more after",
		`{"restarts":{}}`:        `"restarts"`,
		`{"restart":{"stps":1}}`: `"stps"`,
		`{"restart":{"steps":[{"gpus":1,"seconds":"x"}]}}`:                                    "restart.steps.seconds",
		`{"restart":{"steps":[]}}`:                                                            "restart.steps",
		`{"restart":{"steps":[{"gpus":1,"seconds":-1}]}}`:                                     "restart.steps[0].seconds",
		`{"restart":{"steps":[{"gpus":1,"seconds":1},{"gpus":1,"seconds":2}]}}`:               "restart.steps[1].gpus",
		`{"classes":{"list":[]}}`:                                                             "classes.list",
		`{"classes":{"list":[` + strings.Replace(class, "1.2", "0.9", 1) + `}]}}`:             "classes.list[0].spread_slowdown",
		`{"classes":{"list":[` + strings.Replace(class, `weight":1`, `weight":0`, 1) + `}]}}`: "weights",
		`{"classes":{"list":[` + class + `},` + class + `}]}}`:                                "classes.list[1].name",
		`{"classes":{"list":[` + class + `,"scaling":"magic"}]}}`:                             "classes.list[0].scaling",
		`{"pairs":{"loads":[{"name":"a","weight":1}],"speeds":[[1,1]]}}`:                      "pairs.speeds[0]",
		`{"pairs":{"loads":[{"name":"a","weight":1}],"speeds":[[2]]}}`:                        "pairs.speeds[0][0]",
		`{"pairs":{"loads":[{"name":"a","weight":1,"share_score":3}]}}`:                       "pairs.loads[0].share_score",
		`{"pairs":{"loads":[{"name":"a","weight":1},{"name":"b"}],"speeds":[[1,0],[0.5,1]]}}`: "pairs.speeds[1][0]",
		`{"scaling":{"curves":[]}}`:                                                           "scaling.curves",
		`{"scaling":{"curves":[{"name":"a","gpus":[1,2],"speed":[1]}]}}`:                      "scaling.curves[0].speed",
		`{"scaling":{"curves":[{"name":"a","gpus":[1,2],"speed":[1,0.5]}]}}`:                  "scaling.curves[0].speed[1]",
		`{"scaling":{"curves":[{"name":"a","gpus":[2],"speed":[1]}]}}`:                        "scaling.curves[0].gpus",
	} {
		if _, err := ReadModels(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// FuzzReadModels: what is accepted can be used and is written and read back as
// it was.
func FuzzReadModels(f *testing.F) {
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"classes":{"source":"s","list":[{"name":"x","skew":0.1,"spread_slowdown":1.2,"utilization":0.5,"weight":1}]}}`))
	f.Add([]byte(`{"pairs":{"loads":[{"name":"a","weight":1},{"name":"b","utilization":1}],"speeds":[[1,0.5],[0.4,1]]}}`))
	f.Add([]byte(`{"scaling":{"curves":[{"name":"a","gpus":[1],"speed":[1]}]},"restart":{"steps":[{"gpus":1,"seconds":3}],"proportional_beyond":true}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		spec, err := ReadModels(bytes.NewReader(text))
		if err != nil {
			return
		}
		m := spec.Models()
		for gpus := 1; gpus < 2_000_000; gpus = 3*gpus + 1 {
			if m.Restart(gpus) < 0 || m.speedup(0, 1, gpus) < 1 {
				t.Fatalf("on %d GPUs: restart %v, speed %g", gpus, m.Restart(gpus), m.speedup(0, 1, gpus))
			}
		}
		if a, b := m.PairSpeeds(0, len(m.Loads)-1); a < 0 || b < 0 {
			t.Fatal("a negative speed")
		}
		var out bytes.Buffer
		if err := spec.Write(&out); err != nil {
			t.Fatal(err)
		}
		again, err := ReadModels(&out)
		if err != nil || !reflect.DeepEqual(again, spec) {
			t.Fatalf("%+v became %+v: %v", spec, again, err)
		}
	})
}
