package units

import "testing"

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
