package objectives

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/autosched/autosched/internal/testshared"
)

// best is, by objective, the configuration of the lowest cost, as space.Parse reads it.
var best = map[string][]string{
	"quad2":     {"x=2.3", "n=8"},
	"quad5":     {"a=0.15", "b=3", "c=700", "m=6", "q=4"},
	"cat4":      {"policy=gittins", "x=0.85", "k=3", "b=on"},
	"jctnoisy":  {"thr=879.1157", "queues=2", "ratio=6", "cap=20"},
	"branch":    {"kind=ladder", "steps=9", "ratio=4", "pack=true", "limit=0.8", "age=0.2"},
	"ladder":    {"priority=service", "queues=5", "thresholds=3600,22000,130000,500000", "starve=off"},
	"cliff":     {"quantum=25.118864", "restart=3.9810717", "levels=6", "share=0.7"},
	"noise20":   {"a=0.7", "b=0.25", "c=0.5", "d=8", "e=3", "f=y"},
	"bound":     {"a=1", "b=-1", "c=1", "d=20", "e=0", "f=5"},
	"ints8":     {"a=1", "b=2", "c=3", "d=4", "e=1", "f=1", "g=0", "h=4"},
	"hartmann6": {"a=0.20169", "b=0.150011", "c=0.476874", "d=0.275332", "e=0.311652", "f=0.6573"},
	"crash":     {"a=0.65", "b=0.5", "c=7", "d=fast"},
	"plateaus":  {"a=r", "e=0.2", "b=t", "d=0.8", "f=7.9432823", "g=15"},
	"valley":    {"a=1", "b=1", "c=1", "d=1"},
	"ripples":   {"a=0.5", "b=0.5", "c=0.5"},
	"needle":    {"a=0.6", "b=0.3", "c=0.8"},
	"decoy":     {"a=0.8", "b=0.75", "c=x"},
	"stairs":    {"a=0.83", "b=0.415", "c=6.9183097", "d=0.5", "e=7"},
	"cats6":     {"a=p", "b=p", "c=s", "d=p", "e=q", "f=p", "x=0.37"},
	"tails":     {"a=63.095734", "b=0.2", "c=3", "d=z"},
	"noise50":   {"a=0.8", "b=0.1", "c=5", "d=y"},
	"wave1":     {"x=7.1"},
	"cliff1":    {"x=72.4435961"},
	"two12":     {"d=0.7", "i=0.3"},
	"tiny36":    {"a=x", "b=3", "c=v"},
	"deep":      {"mode=learned", "history=true", "model=quantile", "quantile=0.9", "window=35", "weight=0.75"},
	"rungs":     {"n=6", "t=3,20,100,900,10000,60000", "share=0.3"},
	"offset":    {"a=0.62", "b=0.17", "c=9"},
	"steep":     {"a=0.25", "b=0.4", "c=0.9", "d=3.9810717"},
	"wide12":    {"a=0.9", "c=1.9952623", "d=8", "h=z", "i=0.5", "e=0.5", "f=0.5"},
}

func init() {
	for i, id := range []string{"a", "b", "c", "d", "e", "f"} {
		k := (5 - i) % 3
		best["knobs18"] = append(best["knobs18"], fmt.Sprintf("%s1=%v", id, []float64{.2, .5, .8}[k]), id+"2=2",
			id+"3="+string("xyz"[k]))
	}
	for i := range 30 {
		best["many30"] = append(best["many30"], fmt.Sprintf("p%02d=%v", i, []any{0.25, 7, string("wxyz"[i%4])}[i%3]))
	}
}

func TestOptima(t *testing.T) {
	testshared.Full(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range All {
		o := &All[i]
		s := o.Space()
		c, err := s.Parse(s.Default(), best[o.Name])
		if err != nil {
			t.Fatalf("%s: %v", o.Name, err)
		}
		if r := o.Regret(c); math.Abs(r) > 1e-5*(1+o.Optimum) {
			t.Errorf("%s: regret %v where the optimum should be", o.Name, r)
		}
		x := make([]float64, s.Dims())
		for range 5000 {
			for k := range x {
				x[k] = rng.Float64()
			}
			c := s.Decode(x)
			if got := len(o.Numbers(c)); got != s.Dims() {
				t.Fatalf("%s: %d numbers for %d dimensions", o.Name, got, s.Dims())
			}
			if r := o.Regret(c); !(r >= 0) {
				t.Fatalf("%s: regret %v at %v", o.Name, r, c)
			}
			if m := o.Measure(c, 1); m < 0 || m != o.Measure(c, 1) || o.Noise > 0 && m > 0 && m == o.Measure(c, 2) {
				t.Fatalf("%s: measured %v at %v", o.Name, m, c)
			}
		}
	}
	if _, err := Find("nothing"); err == nil {
		t.Error("found an objective that does not exist")
	}
}
