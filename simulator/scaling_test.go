package simulator

import (
	"math"
	"testing"
)

func TestScaling(t *testing.T) {
	curves := DefaultModelSpec().Scaling.Curves
	for _, c := range curves {
		last, gain := 0.0, math.Inf(1)
		for k := 1; k <= 512; k++ {
			v := c.At(k)
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
		curve, gpus int
		want        float64
	}{{0, 1, 1}, {0, 4, 3.63}, {0, 10, 7.26}, {0, 16, 10.89}, {1, 10, 4.235}, {1, 28, 7.64}} {
		if got := curves[c.curve].At(c.gpus); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d GPUs: %g, want %g", c.gpus, got, c.want)
		}
	}
}

// Classes that suffer from being spread scale worse.
func TestDefaultScaling(t *testing.T) {
	m, curves := DefaultModels(), DefaultModelSpec().Scaling.Curves
	for i, c := range m.Classes {
		want := curves[0].At(8)
		if c.Name == "vgg16" || c.Name == "alexnet" || c.Name == "vgg19" || c.Name == "vgg11" {
			want = curves[1].At(8)
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
