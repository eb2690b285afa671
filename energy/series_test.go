package energy

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

func berlin(t *testing.T) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip(err)
	}
	return zone
}

// TestDaylightSaving: the hour that clocks skip is no gap, the hour that they repeat is two.
func TestDaylightSaving(t *testing.T) {
	zone := berlin(t)
	spring, err := ReadPrices(strings.NewReader("ts,price_per_mwh\n2024-03-31 00:00,1\n2024-03-31 01:00,2\n"+
		"2024-03-31 03:00,4\n2024-03-31 04:00,8\n"), "p.csv", zone)
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(2024, 3, 30, 23, 0, 0, 0, time.UTC)
	if got := spring.Over(from, from.Add(4*time.Hour)); got != 15 || len(spring.Gaps(from, from.Add(4*time.Hour))) > 0 {
		t.Errorf("integral %v, gaps %v", got, spring.Gaps(from, from.Add(4*time.Hour)))
	}
	autumn, err := ReadPrices(strings.NewReader("ts,price_per_mwh\n2024-10-27 01:00,1\n2024-10-27 02:00,2\n"+
		"2024-10-27 02:00,4\n2024-10-27 03:00,8\n"), "p.csv", zone)
	if err != nil {
		t.Fatal(err)
	}
	from = time.Date(2024, 10, 26, 23, 0, 0, 0, time.UTC)
	for i, want := range []float64{1, 2, 4, 8} {
		if got := autumn.At(from.Add(time.Duration(i) * time.Hour)); got != want {
			t.Errorf("hour %d: %v, want %v", i, got, want)
		}
	}
	_, err = ReadPrices(strings.NewReader("ts,price_per_mwh\n2024-03-31 02:30,1\n"), "p.csv", zone)
	if err == nil || !strings.Contains(err.Error(), "p.csv: 2: ts") ||
		!strings.Contains(err.Error(), "does not exist") {
		t.Error(err)
	}
}

// TestGapsAreNamed: before the first row, between rows, and after the last.
func TestGapsAreNamed(t *testing.T) {
	s, err := ReadPrices(strings.NewReader("ts,price_per_mwh\n2024-03-30T01:00:00Z,10\n2024-03-30T02:00:00Z,20\n"+
		"2024-03-30T03:00:00Z,30\n2024-03-30T08:00:00Z,40\n"), "p.csv", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	in := &Input{Assumptions: Default(), Cluster: workload.Uniform(1, 1), Zero: zero, To: 12 * time.Hour, Prices: s}
	r, err := Account(in)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"T00:00:00Z to 2024-03-30T01:00", "T04:00:00Z to 2024-03-30T08:00",
		"T09:00:00Z to 2024-03-30T12:00"} {
		if i >= len(r.Notes) || !strings.Contains(r.Notes[i], want) || !strings.HasPrefix(r.Notes[i], "p.csv") {
			t.Fatalf("notes %q, want %q", r.Notes, want)
		}
	}
	if got := s.Over(zero, zero.Add(12*time.Hour)); got != 10+10+20+5*30+4*40 {
		t.Errorf("integral %v", got)
	}
}

func TestIntensitiesByZone(t *testing.T) {
	const text = "ts,zone,g_per_kwh\n2024-01-01T00:00:00Z,DE,400\n" +
		"2024-01-01T00:00:00Z,FR,50\n2024-01-01T01:00:00Z,FR,60\n"
	s, err := ReadIntensities(strings.NewReader(text), "c.csv", "FR", time.UTC)
	if err != nil || s.At(time.Date(2024, 1, 1, 5, 0, 0, 0, time.UTC)) != 60 {
		t.Fatal(s, err)
	}
	for grid, want := range map[string]string{"": `3: zone: there are several ("DE", "FR")`, "XX": `"XX" is not in`} {
		if _, err := ReadIntensities(strings.NewReader(text), "c.csv", grid, time.UTC); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", grid, err, want)
		}
	}
}

func TestBadSeries(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "is empty",
		"time,price\n":                     "p.csv: 1: want the columns",
		"ts,price_per_mwh\n":               "no row",
		"ts,price_per_mwh\nnoon,1\n":       "p.csv: 2: ts",
		"ts,price_per_mwh\n0,NaN\n":        "p.csv: 2: price_per_mwh",
		"ts,price_per_mwh\n0,1e300\n":      "p.csv: 2: price_per_mwh",
		"ts,price_per_mwh\n0,1\n0,2\n":     "p.csv: 3: ts: 0 is not after",
		"ts,price_per_mwh\n99999999999,1":  "p.csv: 2: ts",
		"ts,price_per_mwh\n0,1,3\n":        "p.csv",
		"ts,price_per_mwh\n8000000000,1\n": "out of range",
	} {
		if _, err := ReadPrices(strings.NewReader(text), "p.csv", time.UTC); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// FuzzSeries: whatever is read has steps in order and an integral that is the sum of its parts.
func FuzzSeries(f *testing.F) {
	f.Add("ts,price_per_mwh\n2024-10-27 02:00,2\n2024-10-27 02:00,4\n2024-10-27T03:00:00+01:00,-8\n")
	f.Add("\ufeffts,price_per_mwh\n1700000000,2\n1700003600.5,4\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ReadPrices(strings.NewReader(text), "p.csv", berlin(t))
		if err != nil {
			return
		}
		for i := 1; i < len(s.at); i++ {
			if !s.at[i].After(s.at[i-1]) {
				t.Fatal(s.at)
			}
		}
		a, c := s.at[0].Add(-time.Hour), s.at[len(s.at)-1].Add(time.Hour)
		b := a.Add(c.Sub(a) / 3)
		if x, y := s.Over(a, b)+s.Over(b, c), s.Over(a, c); math.Abs(x-y) > 1e-6*mostPrice*c.Sub(a).Hours() {
			t.Fatalf("%v and %v", x, y)
		}
		s.Gaps(a, c)
	})
}

// TestMeasured: power that was measured takes the model's place, in jobs and idle alike, and
// the band is none but PUE's; where rows are missing the model holds.
func TestMeasured(t *testing.T) {
	in := hostile()
	in.Nodes = nil
	model, err := Account(in)
	if err != nil {
		t.Fatal(err)
	}
	text := "ts,watts\n"
	for h := range 21 {
		text += fmt.Sprintf("%s,%d\n", zero.Add(time.Duration(h)*time.Hour).Format(time.RFC3339), 3000+h%2*2000)
	}
	if in.Measured, err = ReadMeasured(strings.NewReader(text), "m.csv", time.UTC); err != nil {
		t.Fatal(err)
	}
	r, err := Account(in)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "trapezoid", r.Cluster.Energy.Middle, 20*4*1.58, 1e-9)
	near(t, "low", r.Cluster.Energy.Low, 20*4*1.1, 1e-9)
	near(t, "share", r.MeasuredShare, 1, 1e-9)
	near(t, "an hour", r.Hourly[7].Power.Middle, 4*1.58, 1e-9)
	in.Measured.Facility = true
	if r, err = Account(in); err != nil {
		t.Fatal(err)
	}
	near(t, "at the facility", r.Cluster.Energy.Middle, 20*4, 1e-9)
	near(t, "low at the facility", r.Cluster.Energy.Low, 20*4, 1e-9)
	rows := strings.SplitAfter(text, "\n")
	some := strings.Join(append(rows[:6:6], rows[16:]...), "")
	in.Measured, err = ReadMeasured(strings.NewReader(some), "m.csv", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	if r, err = Account(in); err != nil {
		t.Fatal(err)
	}
	near(t, "share", r.MeasuredShare, .45, 1e-9)
	near(t, "an hour of the gap", r.Hourly[9].Power.High, model.Hourly[9].Power.High, 1e-9)
	near(t, "an hour outside", r.Hourly[17].Power.High, 4*1.58, 1e-9)
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "no power measured from 2024-03-30T04") {
		t.Error(r.Notes)
	}
}

func TestBadAssumptions(t *testing.T) {
	for text, want := range map[string]string{
		"":                "is empty",
		"gpu: none\n":     `p.yaml: gpu: the power of GPU model "none" is not known`,
		"gpuu: a100\n":    "line 1",
		"constants: {}\n": "",
		"constants: {pu: {low: 1, middle: 1, high: 1, source: x}}\n":          "constants: pu is not known; there are",
		"constants: {pue: {low: 2, middle: 1, high: 1, source: x}}\n":         "constants: pue: low 2, middle 1",
		"constants: {pue: {low: .5, middle: 1, high: 1, source: x}}\n":        "constants: pue: 0.5 to 1",
		"constants: {pue: {low: 1, middle: 1, high: 1}}\n":                    "constants: pue: source: is missing",
		"constants: {utilization: {low: 1, middle: 1, high: 2, source: x}}\n": "utilization: 2 is above 1",
		"constants: {price: {low: .nan, middle: 1, high: 1, source: x}}\n":    "constants: price",
		"gpus: {X: {idle: 1, max: 2, source: x}}\n":                           `gpus: "X"`,
		"gpus: {x: {idle: 3, max: 2, source: x}}\n":                           "gpus: x: idle 3",
		"version: 7\n": "version: 7 is not 1",
	} {
		_, err := Read(strings.NewReader(text), "p.yaml")
		if want == "" && err == nil {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "p.yaml") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
