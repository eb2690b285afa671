package synth

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

func generateRecipe(t *testing.T, r Recipe) *workload.Workload {
	t.Helper()
	w, err := r.Generate(context.Background(), "test", defaultZero, workload.Uniform(10, 8))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestRecipe: days alternate between a profile and sweeps.
func TestRecipe(t *testing.T) {
	r := Recipe{Days: 4, Seed: 1, Parts: []Part{
		{Profile: "philly", Load: 1, MaxDurationH: 24, Only: "even"},
		{Burst: &Burst{AtH: 1, EveryH: 6, WithinH: .5, Jobs: 10, GPUs: 2, DurationsH: []float64{1, 3}}, Only: "odd"},
	}}
	w := generateRecipe(t, r)
	if !w.Synthetic() {
		t.Error("not labelled synthetic")
	}
	sweeps := 0
	for _, j := range w.Jobs() {
		sweep := strings.HasPrefix(j.Tenant, "burst")
		if odd := int(j.Submit/day)%2 == 1; odd != sweep {
			t.Fatalf("%s of %q is submitted at %v", j.ID, j.Tenant, j.Submit)
		}
		if sweep {
			sweeps++
			n := int((j.Submit - time.Hour) / (6 * time.Hour))
			if want := []time.Duration{time.Hour, 3 * time.Hour}[n%2]; j.Duration != want || j.GPUs.Whole() != 2 ||
				(j.Submit-time.Hour)%(6*time.Hour) > 30*time.Minute {
				t.Errorf("%+v of burst %d", j, n)
			}
		}
	}
	if sweeps != 2*4*10 || w.Len() == sweeps {
		t.Errorf("%d of %d jobs are of sweeps", sweeps, w.Len())
	}
	if again := generateRecipe(t, r); again.Digest() != w.Digest() {
		t.Error("another workload the second time")
	}
}

// TestRecipeDays: a part has the jobs of its days.
func TestRecipeDays(t *testing.T) {
	daily := func(from, to int) Part {
		return Part{Burst: &Burst{AtH: 6, EveryH: 24, Jobs: 1, GPUs: 1 + from, DurationsH: []float64{1}}, FromDay: from,
			ToDay: to}
	}
	w := generateRecipe(t, Recipe{Days: 4, Seed: 1, Parts: []Part{daily(0, 2), daily(1, 0)}})
	var got []int
	for _, j := range w.Jobs() {
		got = append(got, 10*int(j.Submit/day)+j.GPUs.Whole())
	}
	slices.Sort(got)
	if want := []int{1, 11, 12, 22, 32}; !slices.Equal(got, want) {
		t.Errorf("days and GPUs %v, want %v", got, want)
	}
}

// TestRecipeShift: submissions move within their day, from a day on.
func TestRecipeShift(t *testing.T) {
	r := Recipe{Days: 3, Seed: 1, Parts: []Part{{Burst: &Burst{AtH: 20, EveryH: 24, Jobs: 1, GPUs: 1,
		DurationsH: []float64{1}}}}, ShiftH: 12, ShiftFrom: 1}
	var at []float64
	for _, j := range generateRecipe(t, r).Jobs() {
		at = append(at, j.Submit.Hours())
	}
	if len(at) != 3 || at[0] != 20 || at[1] != 24+8 || at[2] != 48+8 {
		t.Errorf("submitted at hours %v", at)
	}
}

func TestBadRecipe(t *testing.T) {
	burst := func() *Burst { return &Burst{Jobs: 1, GPUs: 1, DurationsH: []float64{1}} }
	for want, edit := range map[string]func(*Recipe){
		"days: 0":                               func(r *Recipe) { r.Days = 0 },
		"parts: there are none":                 func(r *Recipe) { r.Parts = nil },
		"part 0: want one of profile and":       func(r *Recipe) { r.Parts[0].Profile = "philly" },
		`only: "sunday"`:                        func(r *Recipe) { r.Parts[0].Only = "sunday" },
		"from_day, to_day: 1 and 0":             func(r *Recipe) { r.Parts[0].FromDay = 1 },
		"from_day, to_day: 0 and -1":            func(r *Recipe) { r.Parts[0].ToDay = -1 },
		"load: 0 is not above 0":                func(r *Recipe) { r.Parts[0] = Part{Profile: "philly"} },
		"1 jobs of 99 GPUs":                     func(r *Recipe) { r.Parts[0].Burst.GPUs = 99 },
		"durations_h":                           func(r *Recipe) { r.Parts[0].Burst.DurationsH[0] = -1 },
		"every_h":                               func(r *Recipe) { r.Parts[0].Burst.EveryH = 1e-9 },
		"shift_h":                               func(r *Recipe) { r.ShiftH = 25 },
		`part 0: synthesize: profile: "nobody"`: func(r *Recipe) { r.Parts[0] = Part{Profile: "nobody", Load: 1} },
	} {
		r := Recipe{Days: 1, Parts: []Part{{Burst: burst()}}}
		edit(&r)
		_, err := r.Generate(context.Background(), "test", defaultZero, workload.Uniform(4, 8))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "recipe test") {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
