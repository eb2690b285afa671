package simulator

import (
	"math"
	"testing"
)

func TestScaling(t *testing.T) {
	for _, c := range []*scaling{&scalesWell, &scalesBadly} {
		last, gain := 0.0, math.Inf(1)
		for k := 1; k <= 512; k++ {
			v := c.at(k)
			if v <= last || v > float64(k) {
				t.Fatalf("%d GPUs: throughput %g after %g", k, v, last)
			}
			if k > 16 && v-last > gain+1e-9 {
				t.Fatalf("%d GPUs: the next GPU gains more than the one before", k)
			}
			last, gain = v, v-last
		}
	}
	for _, c := range []struct {
		c    *scaling
		gpus int
		want float64
	}{{&scalesWell, 1, 1}, {&scalesWell, 4, 3.63}, {&scalesWell, 10, 7.26}, {&scalesWell, 16, 10.89},
		{&scalesBadly, 10, 4.235}, {&scalesBadly, 28, 7.64}} {
		if got := c.c.at(c.gpus); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d GPUs: %g, want %g", c.gpus, got, c.want)
		}
	}
}

// Classes that suffer from being spread scale worse.
func TestDefaultScaling(t *testing.T) {
	m := DefaultModels()
	for i, c := range m.Classes {
		want := scalesWell.at(8)
		if c.Name == "vgg16" || c.Name == "alexnet" || c.Name == "vgg19" || c.Name == "vgg11" {
			want = scalesBadly.at(8)
		}
		if got := m.Throughput(i, 8); got != want {
			t.Errorf("%s: %g on 8 GPUs, want %g", c.Name, got, want)
		}
	}
	m.Speed = nil
	if got := m.Throughput(0, 7); got != 7 {
		t.Errorf("no table: %g on 7 GPUs", got)
	}
}
