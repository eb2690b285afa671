package energy

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// TestTariffBetween: within its span, a part of a tariff measures as the whole does, also after it was stored.
func TestTariffBetween(t *testing.T) {
	start := time.Date(2024, 3, 30, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		series := func(name string) *Series {
			n := rapid.IntRange(1, 40).Draw(t, name)
			at, values := make([]time.Time, n), make([]float64, n)
			last := start
			for i := range n {
				last = last.Add(time.Duration(rapid.IntRange(1, 300).Draw(t, "minutes")) * time.Minute)
				at[i], values[i] = last, rapid.Float64Range(-100, 500).Draw(t, "value")
			}
			return newSeries(name, at, values)
		}
		whole := &Tariff{Default(), series("prices"), nil}
		if rapid.Bool().Draw(t, "intensities") {
			whole.Intensities = series("intensities")
		}
		instant := func(name string) time.Duration {
			return time.Duration(rapid.IntRange(0, 6000).Draw(t, name)) * time.Minute
		}
		from, to := instant("from"), instant("to")
		from, to = min(from, to), max(from, to)+time.Minute
		text, err := json.Marshal(whole.Between(start.Add(from), start.Add(to)))
		if err != nil {
			t.Fatal(err)
		}
		var part Tariff
		if err := json.Unmarshal(text, &part); err != nil {
			t.Fatal(err)
		}
		c := workload.Uniform(1, 8)
		a, err := whole.Meter(c, start)
		if err != nil {
			t.Fatal(err)
		}
		b, err := part.Meter(c, start)
		if err != nil {
			t.Fatal(err)
		}
		x, y := min(max(from, instant("x")), to), min(max(from, instant("y")), to)
		spell := simulator.Spell{GPUs: 4, From: min(x, y), To: max(x, y)}
		for k := range bands {
			p, q := a.Band()[k].Draw(spell), b.Band()[k].Draw(spell)
			if p.Energy != q.Energy || !close(p.Cost, q.Cost) || !close(p.CO2, q.CO2) {
				t.Fatalf("the part measures %+v, the whole %+v", q, p)
			}
		}
	})
}

func close(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 }

// TestTariffJSON: a stored tariff is read back, an incomplete one refused.
func TestTariffJSON(t *testing.T) {
	whole := &Tariff{Default(), newSeries("p", []time.Time{time.Unix(0, 0).UTC(), time.Unix(60, 5).UTC()},
		[]float64{1, -.1}), nil}
	text, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	var read Tariff
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(whole, &read, cmp.AllowUnexported(Series{})); d != "" {
		t.Error(d)
	}
	for from, to := range map[string]string{
		`"assumptions":{`:            `"assumptions":null,"x":{`,
		`"pue":`:                     `"pu":`,
		`"values":[1,-0.1]`:          `"values":[1]`,
		`"values":[1,-0.1`:           `"values":[1,-1e9`,
		`"at":["1970-01-01T00:00:00`: `"at":["1970-01-02T00:00:00`,
	} {
		if bad := strings.Replace(string(text), from, to, 1); bad == string(text) {
			t.Errorf("%s is not in %s", from, text)
		} else if err := json.Unmarshal([]byte(bad), &read); err == nil {
			t.Errorf("%s in place of %s is accepted", to, from)
		}
	}
}

// TestSource: files that changed are read again, unreadable ones leave the tariff as it is, and are
// logged once.
func TestSource(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const head = "ts,price_per_mwh\n2024-01-01T00:00:00Z,"
	write("prices.csv", head+"50\n")
	config := write("energy.yaml", "prices: prices.csv\n")
	var log strings.Builder
	s, err := OpenSource(config, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	price := func(want float64) {
		t.Helper()
		testshared.Near(t, "price", s.Tariff().Prices.At(time.Now()), want, 0)
	}
	price(50)
	write("prices.csv", head+"100\n") // another size: clocks of files are coarse
	price(100)
	write("prices.csv", head+"nothing\n")
	price(100)
	price(100)
	if n := strings.Count(log.String(), "cannot be read"); n != 1 {
		t.Errorf("logged %d times: %s", n, log.String())
	}
	write("prices.csv", head+"7\n")
	price(7)
	write("other.csv", head+"8.5\n")
	write("energy.yaml", "prices: other.csv\n# another file\n")
	price(8.5)
	write("energy.yaml", "prices: later.csv # a file that is not right yet\n")
	write("later.csv", head+"nothing\n")
	price(8.5)
	write("later.csv", head+"12\n")
	price(12)
	write("energy.yaml", "prices: absent.csv # and one that is not there yet\n")
	price(12)
	write("absent.csv", head+"13\n")
	price(13)
}
