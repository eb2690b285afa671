package simulator

import (
	"bytes"
	"encoding/csv"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestPairs checks some of Gavel's measurements against the table, and that
// draws for jobs are stable.
func TestPairs(t *testing.T) {
	m := DefaultModels()
	if len(m.Loads) != 26 {
		t.Fatalf("%d loads", len(m.Loads))
	}
	at := map[string]int{}
	scores := [3]int{}
	for i, l := range m.Loads {
		at[l.Name] = i
		scores[l.Score]++
	}
	if scores != [3]int{6, 10, 10} {
		t.Errorf("loads by score: %v", scores)
	}
	for _, tt := range []struct {
		a, b       string
		own, other float64
	}{
		{"LM/5", "LM/5", .622, .622},
		{"A3C", "CycleGAN", .636, .715},
		{"ResNet-18/16", "ResNet-18/16", 1, 1},
		{"ResNet-50/128", "ResNet-50/128", 0, 0}, // out of memory
	} {
		own, other := m.PairSpeeds(at[tt.a], at[tt.b])
		if own != tt.own || other != tt.other {
			t.Errorf("%s beside %s: %g and %g, want %g and %g", tt.a, tt.b, own, other, tt.own, tt.other)
		}
		if back, too := m.PairSpeeds(at[tt.b], at[tt.a]); back != other || too != own {
			t.Errorf("%s and %s disagree on who is who", tt.a, tt.b)
		}
	}
	var classes, loads lottery
	m.lotteries(&classes, &loads)
	if loads.draw("A3C", "any") != at["A3C"] {
		t.Error("a load is not found by its name")
	}
	drawn := map[int]bool{}
	for _, key := range []string{"", "a", "b", "c", "d", "e", "f"} {
		l := loads.draw("", key)
		drawn[l] = true
		if loads.draw("", key) != l {
			t.Errorf("key %q has two loads", key)
		}
	}
	if len(drawn) < 3 {
		t.Errorf("seven keys share %d loads", len(drawn))
	}
	m.Pair = nil // by utilisation: half a GPU too much
	m.Loads = []Load{{Util: .75}, {Util: .25}}
	if v, _ := m.PairSpeeds(0, 0); math.Abs(v-.801) > 1e-12 {
		t.Errorf("two at .75: %g", v)
	}
	if v, _ := m.PairSpeeds(0, 1); v != .985 {
		t.Errorf("a GPU just full: %g", v)
	}
}

// TestMeasuredPairs: the rule for pairs that were not measured, fitted without those of a load, is nearer to them than
// the speeds by utilisation.
func TestMeasuredPairs(t *testing.T) {
	spec, ok := ModelSet("h100")
	if !ok || len(spec.Pairs.Loads) != 6 || spec.Validate() != nil {
		t.Fatalf("%+v, %v", spec.Pairs, spec.Validate())
	}
	m := spec.Models()
	of := func(name string) int {
		return slices.IndexFunc(m.Loads, func(l Load) bool { return l.Name == name })
	}
	if a, b := m.PairSpeeds(of("resnet50"), of("gpt")); a != .533 || b != .468 {
		t.Errorf("resnet50 beside gpt: %v, %v", a, b)
	}
	if a, b := m.PairSpeeds(of("bert"), of("bert")); math.Abs(a-.976) > 1e-9 || a != b {
		t.Errorf("bert beside itself: %v, %v", a, b)
	}
	type sample struct {
		pairSample
		models [2]string
		util   float64
	}
	use, util := map[string]float64{}, map[string]float64{}
	err := eachRow(strings.NewReader(h100Single), []string{"model", "graphics_util", "sm_util"},
		func(text []string, v []float64) error {
			util[text[0]], use[text[0]] = v[1]/100, v[2]/100
			return nil
		})
	var all []sample
	err = errors.Join(err, eachRow(strings.NewReader(h100Pairs), []string{"model1", "model2", "speed1", "speed2"},
		func(text []string, v []float64) error {
			for k := range 2 {
				a, b := text[k], text[1-k]
				speed, _ := hinge(util[a], util[b])
				all = append(all, sample{pairSample{use[a], use[b], v[2+k]}, [2]string{a, b}, speed})
			}
			return nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	byRule, byUtil, n := 0., 0., 0.
	for name := range use {
		var fit []pairSample
		for _, x := range all {
			if !slices.Contains(x.models[:], name) {
				fit = append(fit, x.pairSample)
			}
		}
		rule, err := fitPairs(fit)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range all {
			if slices.Contains(x.models[:], name) {
				byRule += math.Abs(rule.Speed(x.sm, x.other) - min(1, x.speed))
				byUtil += math.Abs(x.util - min(1, x.speed))
				n++
			}
		}
	}
	t.Logf("mean error of pairs left out: %.3f by the rule, %.3f by utilisation", byRule/n, byUtil/n)
	if byRule > .6*byUtil || byRule/n > .08 {
		t.Errorf("%.3f by the rule, %.3f by utilisation", byRule/n, byUtil/n)
	}
	for gpu, want := range map[string]string{"NVIDIA H100 80GB HBM3": "h100", "gb200": "h100", "A100-SXM4": "v100", "": "v100"} {
		if got := ModelSetOf(gpu); got != want {
			t.Errorf("%s: %s", gpu, got)
		}
	}
	for what, x := range map[string][2]string{
		"the header lacks sm_util":     {"model,memory_mib\na,1\n", ""},
		`sm_util: "x" is not a number`: {"model,memory_mib,sm_util\na,1,x\n", ""},
		"b beside a: is not among":     {"model,memory_mib,sm_util\na,1,5\n", "model1,model2,speed1,speed2\nb,a,1,1\n"},
		"too few or too alike":         {"model,memory_mib,sm_util\na,1,5\n", "model1,model2,speed1,speed2\na,a,1,1\n"},
		"pairs: the pairs are too few or too alike": {"model,memory_mib,sm_util\na,1,50\nb,1,50.0000000001\n",
			"model1,model2,speed1,speed2\na,b,.9,.8\na,a,.7,.7\nb,b,.6,.6\n"},
		"speed1: 3 is not from 0.001 to 2":    {"model,memory_mib,sm_util\na,1,5\n", "model1,model2,speed1,speed2\na,a,3,1\n"},
		"a beside a: is there twice":          {"model,memory_mib,sm_util\na,1,5\n", "model1,model2,speed1,speed2\na,a,1,1\na,a,1,1\n"},
		`loads: line 3: model: "a" is there`:  {"model,memory_mib,sm_util\na,1,5\na,1,5\n", ""},
		"sm_util: 500 is not from 0 to 100":   {"model,memory_mib,sm_util\na,1,500\n", ""},
		"pairs: the header lacks model1":      {"model,memory_mib,sm_util\na,1,5\n", "a\n"},
		"pairs: line 2: speed1: \"x\" is not": {"model,memory_mib,sm_util\na,1,5\n", "model1,model2,speed1,speed2\na,a,x,1\n"},
	} {
		if _, err := ReadPairs(strings.NewReader(x[0]), strings.NewReader(x[1]), ""); err == nil ||
			!strings.Contains(err.Error(), what) {
			t.Errorf("%q: %v, want %s", x, err, what)
		}
	}
}

// TestV100Pairs: the default set has the loads and speeds of Gavel's table.
func TestV100Pairs(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "gavel_v100_pairs.csv"))
	if err != nil {
		t.Fatal(err)
	}
	in := csv.NewReader(bytes.NewReader(text))
	in.Comment = '#'
	rows, err := in.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var loads []ModelLoad
	var speeds [][]float64
	for _, fields := range rows {
		var row []float64
		for _, field := range fields[1:] {
			v, err := strconv.ParseFloat(field, 64)
			if err != nil {
				t.Fatal(err)
			}
			row = append(row, v)
		}
		loads, speeds = append(loads, ModelLoad{Name: fields[0], Weight: 1}), append(speeds, row)
	}
	scoreLoads(loads, speeds)
	if got := DefaultModelSpec().Pairs; !reflect.DeepEqual(got.Loads, loads) || !reflect.DeepEqual(got.Speeds, speeds) {
		t.Errorf("%+v\nmeasured %+v\n%v", got, loads, speeds)
	}
}
