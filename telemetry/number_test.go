package telemetry

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestDecimal: decimals are read as strconv reads them, to the last bit, and other texts are left to it.
func TestDecimal(t *testing.T) {
	check := func(text string, must bool) {
		t.Helper()
		got, ok := decimal([]byte(text))
		want, err := strconv.ParseFloat(text, 64)
		if must && !ok {
			t.Errorf("%q is not read", text)
		}
		if ok && (err != nil || math.Float64bits(got) != math.Float64bits(want)) {
			t.Errorf("%q: %v, want %v, %v", text, got, want, err)
		}
	}
	for _, text := range []string{"0", "-0", "7", "007", "5.", ".5", "-.25", "0.1", "123456789012345", "-99.99999",
		"0.00000000000001", "999999999999.999"} {
		check(text, true)
	}
	for _, text := range []string{"", "-", ".", "-.", "+1", "1e3", "1.2.3", "--1", "1-", "NaN", "inf", "0x1", "1_0", " 1",
		"1234567890123456", "0.1234567890123456", "99999999999999999999999999"} {
		if v, ok := decimal([]byte(text)); ok {
			t.Errorf("%q is %v", text, v)
		}
	}
	x := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		text := strconv.FormatFloat((x.Float64()-.5)*math.Pow(10, float64(x.IntN(12))), 'f', x.IntN(9), 64)
		check(text, false)
	}
}
