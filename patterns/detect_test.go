package patterns

import (
	"testing"
	"time"
)

// TestWaitsRise: waits that grow are a spiral while about as much arrives, however much single
// intervals vary, and not where they stay among the usual ones.
func TestWaitsRise(t *testing.T) {
	d := &spiral{r: &compiled{rule: Builtin().Rule("queue_spiral")}}
	of := func(longest time.Duration, before int, arrived ...float64) []interval {
		wait := 2 * time.Minute
		var list []interval
		for range before {
			list = append(list, interval{wait: wait, longest: longest, waited: true, arrived: arrived[0],
				arrivalsKnown: true, free: .5, freeKnown: true})
		}
		for _, a := range arrived {
			list = append(list, interval{wait: wait, longest: wait, waited: true, arrived: a, arrivalsKnown: true,
				free: .5, freeKnown: true})
			wait = wait * 3 / 2
		}
		return list
	}
	for _, c := range []struct {
		name string
		list []interval
		want bool
	}{
		{"as much arrives", of(3*time.Minute, 6, 10, 10, 10, 10), true},
		{"arrivals vary", of(3*time.Minute, 6, 10, 11.3, 9.5, 10.5), true},
		{"more arrives each time", of(3*time.Minute, 6, 10, 11.2, 12.5, 14), false},
		{"more arrives at once", of(3*time.Minute, 6, 10, 12.5, 12.5, 12), false},
		{"waits as long are usual", of(8*time.Minute, 6, 10, 10, 10, 10), false},
		{"what is usual is not known", of(8*time.Minute, 3, 10, 10, 10, 10), true},
		{"too few intervals", of(3*time.Minute, 0, 10, 10, 10), false},
	} {
		if _, _, _, got := d.waitsRise(c.list); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	// Rules without the optional numbers are as strict about arrivals in each interval.
	old := *Builtin().Rule("queue_spiral")
	old.Params = map[string]float64{}
	for name, v := range Builtin().Rule("queue_spiral").Params {
		if name != "arrival_step" && name != "usual" {
			old.Params[name] = v
		}
	}
	if err := old.check(); err != nil {
		t.Fatal(err)
	}
	d = &spiral{r: &compiled{rule: &old}}
	for arrived, want := range map[float64]bool{10.5: true, 11.3: false} {
		if _, _, _, got := d.waitsRise(of(8*time.Minute, 6, 10, arrived, 10, 10)); got != want {
			t.Errorf("without the optional numbers, %g after 10: %v", arrived, got)
		}
	}
}
