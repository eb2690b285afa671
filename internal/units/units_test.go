package units

import (
	"math"
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for seconds, want := range map[float64]string{
		0: "0 s", 0.25: "0.25 s", 9.97: "10 s", 59.6: "1 min", 750: "12 min 30 s", 3599.9: "1 h", 116280: "32 h 18 min",
		172799: "2 d", 273600: "3 d 4 h", -90: "-1 min 30 s",
	} {
		if got := Duration(seconds); got != want {
			t.Errorf("Duration(%v) = %q, want %q", seconds, got, want)
		}
	}
}

func TestExact(t *testing.T) {
	for seconds, want := range map[float64]string{
		0.25: "0.25 s", 750: "12 min 30 s", 3600: "1 h", 6602.6: "1 h 50 min 3 s", 6602: "1 h 50 min 2 s",
		90061: "1 d 1 h 1 min 1 s", -6602: "-1 h 50 min 2 s", 1e15: "1e+15 s",
	} {
		if got := Exact(seconds); got != want {
			t.Errorf("Exact(%v) = %q, want %q", seconds, got, want)
		}
	}
}

// TestSpan: a span reads back as the same number.
func TestSpan(t *testing.T) {
	for seconds, want := range map[float64]string{
		0: "0s", 14400: "4h", 5400: "1h30m", 3630: "1h0m30s", 25026.8: "6h57m6.8s", 0.25: "250ms", 59.5: "59.5s",
		-90: "-1m30s", 1e9: "277777h46m40s",
	} {
		got, ok := Span(seconds)
		if d, err := time.ParseDuration(got); got != want || !ok || err != nil || d.Seconds() != seconds {
			t.Errorf("Span(%v) = %q, %t, want %q", seconds, got, ok, want)
		}
	}
	for _, seconds := range []float64{1e-6, 1e10, -1e300, 1. / 3, math.NaN(), math.Inf(1)} {
		if got, ok := Span(seconds); ok {
			t.Errorf("Span(%v) = %q", seconds, got)
		}
	}
}

func TestShares(t *testing.T) {
	for got, want := range map[string]string{
		Percent(0.125): "12.5 %", Change(-0.004): "-0.4 %", Change(0.1): "+10.0 %", Count(-1234567): "-1,234,567",
		Count(999): "999",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestNoNegativeZero(t *testing.T) {
	for share, want := range map[float64]string{-0.0004: "0.0 %", 0.0004: "0.0 %", -0.0006: "-0.1 %",
		0.1234: "12.3 %"} {
		if got := Percent(share); got != want {
			t.Errorf("%g: %s, want %s", share, got, want)
		}
	}
	if got := Change(-0.0001); got != "+0.0 %" {
		t.Error(got)
	}
}
