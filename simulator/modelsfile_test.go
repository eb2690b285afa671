package simulator

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/testshared"
)

// TestDefaultModelSpec: the tables and the built-in models agree.
func TestDefaultModelSpec(t *testing.T) {
	want, got := DefaultModels(), new(ModelSpec).Models()
	if !reflect.DeepEqual(want.Classes, got.Classes) || !reflect.DeepEqual(want.Loads, got.Loads) {
		t.Error("classes or loads differ")
	}
	for gpus := 1; gpus <= 200; gpus++ {
		if a, b := want.Restart(gpus, 0), got.Restart(gpus, 0); a != b {
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
	measured, _ := ModelSet("h100")
	for _, f := range []*ModelSpec{DefaultModelSpec(), measured, partly, {}} {
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
	if d := partly.Models().Restart(64, 0); d.Seconds() != 5.5 {
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
		`{"restart":{"steps":[{"gpus":1,"seconds":"x"}]}}`:                                "restart.steps.seconds",
		`{"restart":{"steps":[]}}`:                                                        "restart.steps",
		`{"restart":{"steps":[{"gpus":1,"seconds":-1}]}}`:                                 "restart.steps[0].seconds",
		`{"restart":{"steps":[{"gpus":1,"seconds":1},{"gpus":1,"seconds":2}]}}`:           "restart.steps[1].gpus",
		`{"restart":{"steps":[{"gpus":1,"seconds":1}],"by_state":{"share_of_memory":2}}}`: "restart.by_state.share_of_memory",
		`{"classes":{"list":[]}}`:                                                         "classes.list",
		`{"classes":{"list":[` + strings.Replace(class, "1.2", "0.9", 1) +
			`}]}}`: "classes.list[0].spread_slowdown",
		`{"classes":{"list":[` + strings.Replace(class, `weight":1`, `weight":0`, 1) + `}]}}`: "weights",
		`{"classes":{"list":[` + class + `},` + class +
			`}]}}`: "classes.list[1].name",
		`{"classes":{"list":[` + class +
			`,"scaling":"magic"}]}}`: "classes.list[0].scaling",
		`{"classes":{"list":[` + class +
			`,"spread_slowdown_on":{"torus":0.5}}]}}`: "classes.list[0].spread_slowdown_on.torus",
		`{"classes":{"list":[` + class +
			`,"spread_slowdown_on":{"":1}}]}}`: "classes.list[0].spread_slowdown_on",
		`{"classes":{"interconnect":"ring","list":[` + class +
			`,"spread_slowdown_on":{"torus":1.5}}]}}`: "classes.interconnect",
		`{"pairs":{"loads":[{"name":"a","weight":1}],"speeds":[[1,1]]}}`:                      "pairs.speeds[0]",
		`{"pairs":{"loads":[{"name":"a","weight":1}],"speeds":[[2]]}}`:                        "pairs.speeds[0][0]",
		`{"pairs":{"loads":[{"name":"a","weight":1,"share_score":3}]}}`:                       "pairs.loads[0].share_score",
		`{"pairs":{"loads":[{"name":"a","weight":1},{"name":"b"}],"speeds":[[1,0],[0.5,1]]}}`: "pairs.speeds[1][0]",
		`{"scaling":{"curves":[]}}`:                                          "scaling.curves",
		`{"scaling":{"curves":[{"name":"a","gpus":[1,2],"speed":[1]}]}}`:     "scaling.curves[0].speed",
		`{"scaling":{"curves":[{"name":"a","gpus":[1,2],"speed":[1,0.5]}]}}`: "scaling.curves[0].speed[1]",
		`{"scaling":{"curves":[{"name":"a","gpus":[2],"speed":[1]}]}}`:       "scaling.curves[0].gpus",
	} {
		if _, err := ReadModels(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestInterconnect: the classes' slowdowns are taken on the cluster's
// interconnect, where there is one for it.
func TestInterconnect(t *testing.T) {
	const text = `{"classes":{"interconnect":"torus","list":[
		{"name":"a","spread_slowdown":1.5,"spread_slowdown_on":{"torus":1.2,"ring":3},"weight":1},
		{"name":"b","spread_slowdown":1.4,"spread_slowdown_on":{"ring":2},"weight":1},
		{"name":"c","spread_slowdown":1.3,"spread_slowdown_on":{},"weight":1}]}}`
	for interconnect, want := range map[string][]float64{"torus": {1.2, 1.4, 1.3}, "ring": {3, 2, 1.3},
		"": {1.5, 1.4, 1.3}} {
		f, err := ReadModels(strings.NewReader(strings.Replace(text, "torus", interconnect, 1)))
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range f.Models().Classes {
			if c.Slowdown != want[i] {
				t.Errorf("on %q %s is slowed down by %g, want %g", interconnect, c.Name, c.Slowdown, want[i])
			}
		}
	}
}

// TestSlowdownsAreMeasured: the built-in slowdowns are the mean over models and
// numbers of GPUs of the medians measured on more nodes than needed, to a tenth
// and rounded to the resolution of a model of two classes.
func TestSlowdownsAreMeasured(t *testing.T) {
	in, err := os.Open(testshared.Path(t, "golden", "simulator", "calibration", "placement_slowdown.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	rows, err := csv.NewReader(in).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	type kind struct {
		interconnect string
		heavy        bool
	}
	measured := map[kind][]float64{}
	on := map[string]string{"default(aws-t4)": "ethernet", "rtx": "pcie", "dgx": "nvlink"}
	for _, row := range rows[1:] { // model,cluster,gpus,min_nodes,nodes,min,median,max,count
		interconnect := on[row[1]]
		v, err := strconv.ParseFloat(row[6], 64)
		if err != nil {
			t.Fatal(err)
		}
		if interconnect == "" || row[3] != "1" || row[4] == "1" {
			continue
		}
		heavy := row[0] == "bert" || row[0] == "yolov3" || row[0] == "ncf"
		measured[kind{interconnect, heavy}] = append(measured[kind{interconnect, heavy}], v)
	}
	for _, c := range DefaultModelSpec().Classes.List {
		for _, interconnect := range []string{"ethernet", "pcie", "nvlink"} {
			values := measured[kind{interconnect, c.Slowdown >= communicationHeavy}]
			mean := 0.0
			for _, v := range values {
				mean += max(v, 1) / float64(len(values)) // below 1 is noise
			}
			if got := c.SlowdownOn(interconnect); len(values) < 10 || math.Abs(got-mean) > .12 {
				t.Errorf("%s on %s: %g, measured %.3f in %d cases", c.Name, interconnect, got, mean, len(values))
			}
		}
	}
}

// FuzzReadModels: an accepted file can be used and is written and read back as
// it was.
func FuzzReadModels(f *testing.F) {
	f.Add([]byte(`{}`))
	f.Add(
		[]byte(
			`{"classes":{"interconnect":"i","list":[{"name":"x","spread_slowdown":1.2,"spread_slowdown_on":{"i":2},"weight":1},{"name":"y","spread_slowdown":1,"spread_slowdown_on":{}}]}}`))
	f.Add(
		[]byte(
			`{"classes":{"source":"s","list":[{"name":"x","skew":0.1,"spread_slowdown":1.2,"utilization":0.5,"weight":1}]}}`))
	f.Add(
		[]byte(`{"pairs":{"loads":[{"name":"a","weight":1},{"name":"b","utilization":1}],"speeds":[[1,0.5],[0.4,1]]}}`))
	f.Add(
		[]byte(
			`{"scaling":{"curves":[{"name":"a","gpus":[1],"speed":[1]}]},"restart":{"steps":[{"gpus":1,"seconds":3}],"proportional_beyond":true,"by_state":{"seconds":10,"seconds_per_gb":3,"share_of_memory":0.25}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		spec, err := ReadModels(bytes.NewReader(text))
		if err != nil {
			return
		}
		m := spec.Models()
		for gpus := 1; gpus < 2_000_000; gpus = 3*gpus + 1 {
			if m.Restart(gpus, 0) < 0 || m.speedup(0, 1, gpus) < 1 {
				t.Fatalf("on %d GPUs: restart %v, speed %g", gpus, m.Restart(gpus, 0), m.speedup(0, 1, gpus))
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
