package paper

import (
	"math"
	"strings"
	"testing"
)

// TestByHour: values go to their hour of the day whatever the first hour is.
func TestByHour(t *testing.T) {
	values := make([]float64, 24*10)
	for i := range values {
		values[i] = float64((i + 5) % 24)
	}
	for h, v := range byHour(values, 5) {
		if want := float64(h); v != [3]float64{want, want, want} {
			t.Errorf("hour %d has %v", h, v)
		}
	}
}

// TestPeriods: a wave of a day in the counts is the strongest period and has all of the variance.
func TestPeriods(t *testing.T) {
	counts := make([]float64, 24*14)
	for i := range counts {
		counts[i] = 10 + 5*math.Sin(2*math.Pi*float64(i)/24)
	}
	var x Described
	if x.periods(counts); x.Period != 24 || x.Daily != 1 || x.Weeks != 0 {
		t.Errorf("%+v", x)
	}
}

// TestDescribeEarth: the virtual clusters of an hour are summed up, and a table without a column is refused.
func TestDescribeEarth(t *testing.T) {
	names := []string{"vc", "unix", "running_gpu_num", "total_gpu_num"}
	column := func(name string) int {
		for i, n := range names {
			if n == name {
				return i
			}
		}
		return -1
	}
	got, err := describeEarth([][]string{{"a", "3600", "4", "8"}, {"b", "3600", "8", "24"}, {"a", "4200", "6", "8"},
		{"b", "4200", "6", "24"}}, column)
	if err != nil || got.Used[1][0] != .375 {
		t.Errorf("%v, %v, want 24 of 64 GPUs in use", got, err)
	}
	names[3] = "gpus"
	if _, err := describeEarth(nil, column); err == nil || !strings.Contains(err.Error(), "total_gpu_num") {
		t.Errorf("a table without GPUs: %v", err)
	}
}
