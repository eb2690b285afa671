package arrivals_test

import (
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/generation/arrivals"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/workload/trace"
)

func date(t testing.TB, zero time.Time, text string) time.Duration {
	t.Helper()
	d, err := time.Parse(time.DateOnly, text)
	if err != nil {
		t.Fatal(err)
	}
	return d.Sub(zero)
}

// philly is the public Philly trace from 2017-09-18 on, as the reference figures
// were computed; before it there are a few jobs a day.
func philly(t testing.TB) *arrivals.History {
	t.Helper()
	w, _, err := trace.Open(t.Context(), testshared.Path(t, "traces", "philly", "jobs.csv.gz"), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	end := date(t, w.Zero(), "2017-11-06")
	h, err := arrivals.FromJobs(w.Zero(), w.Window(date(t, w.Zero(), "2017-09-18"), end).Jobs(), end, arrivals.Grid{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// venus counts the GPU jobs of Helios-Venus per 10 minutes.
func venus(t testing.TB) *arrivals.History {
	t.Helper()
	f, err := os.Open(testshared.Path(t, "traces", "helios-venus", "throughput.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(z).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	when, what := slices.Index(rows[0], "time"), slices.Index(rows[0], "submit_gpu_job")
	zero, err := time.Parse(time.RFC3339, rows[1][when])
	if err != nil {
		t.Fatal(err)
	}
	counts := make([]int, len(rows)-1)
	for i, row := range rows[1:] {
		if counts[i], err = strconv.Atoi(row[what]); err != nil {
			t.Fatal(err)
		}
	}
	h, err := arrivals.FromCounts(zero, counts, 10*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func evaluate(t testing.TB, h *arrivals.History, method, from, to string) (jobs, batches *arrivals.Score) {
	t.Helper()
	choice, err := arrivals.Parse(method)
	if err != nil {
		t.Fatal(err)
	}
	f, err := arrivals.New(arrivals.Options{Method: choice})
	if err != nil {
		t.Fatal(err)
	}
	jobs, batches, err = arrivals.Evaluate(t.Context(), h, f,
		arrivals.Rolling{From: date(t, h.Zero(), from), To: date(t, h.Zero(), to), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return jobs, batches
}

// reference is a row of the reference figures, made by other code.
type reference struct {
	Method string  `json:"method"`
	Hours  int     `json:"hours"`
	Bin    float64 `json:"mae_bin"`
	Hour   float64 `json:"mae_hour"`
	RMSE   float64 `json:"rmse_hour"`
	WAPE   float64 `json:"wape_hour"`
	Bias   float64 `json:"bias"`
	RelMin float64 `json:"rel_day_min"`
	RelMed float64 `json:"rel_day_med"`
	RelMax float64 `json:"rel_day_max"`
}

func references(t *testing.T, window string) []reference {
	t.Helper()
	data, err := os.ReadFile(testshared.Path(t, "traces", "scenarios", "arrival_forecast_baselines.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	var w struct {
		Methods []reference `json:"methods"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(all[window], &w); err != nil || len(w.Methods) == 0 {
		t.Fatalf("no reference figures for %s (%v)", window, err)
	}
	return w.Methods
}

// TestReference compares with figures that other code made: the evaluation is
// the same, and so are the methods that copy one place. Their forecast is
// one future, so that all figures can be compared, within their rounding.
func TestReference(t *testing.T) {
	testshared.Full(t)
	for _, w := range []struct {
		name, from, to string
		history        func(testing.TB) *arrivals.History
		long           bool
	}{
		{"philly 2017-09-22..2017-10-06", "2017-09-22", "2017-10-06", philly, false},
		{"philly 2017-10-09..2017-11-06", "2017-10-09", "2017-11-06", philly, true},
		{"venus 2020-07-26..2020-08-09", "2020-07-26", "2020-08-09", venus, false},
		{"venus 2020-07-01..2020-09-01", "2020-07-01", "2020-09-01", venus, true},
	} {
		t.Run(w.name, func(t *testing.T) {
			if w.long {
				testshared.Long(t)
			}
			if testing.Short() && !strings.HasPrefix(w.name, "philly") {
				t.Skip("under -short, philly is enough")
			}
			h := w.history(t)
			for _, r := range references(t, w.name) {
				method := map[string]string{
					"last hour": "repeat", "paper: NN original Manhattan": "paper-original",
				}[r.Method]
				if method == "" {
					continue
				}
				s, _ := evaluate(t, h, method, w.from, w.to)
				check := func(what string, got, want, tolerance float64) {
					if !(math.Abs(got-want) <= tolerance) {
						t.Errorf("%s: %s %.4f, the reference has %.4f", method, what, got, want)
					}
				}
				check("forecasts", float64(s.Forecasts), float64(r.Hours), 0)
				const rounding = 0.00051
				check("wape", s.WAPE, r.WAPE, rounding)
				check("wape of the mean", s.WAPEMean, r.WAPE, rounding)
				check("bias", s.Bias, r.Bias, rounding)
				check("mae per bin", s.MAEPerBin, r.Bin, rounding)
				check("mae", s.MAE, r.Hour, 0.0051)
				check("rmse", s.RMSE, r.RMSE, 0.051)
				check("least day", s.RelMin, r.RelMin, 0.0051)
				check("median day", s.RelMed, r.RelMed, 0.0051)
				check("largest day", s.RelMax, r.RelMax, 0.0051)
			}
		})
	}
}

// TestTargets holds the methods to their targets, on real traces: less
// error than every method before them, totals without bias, intervals that cover.
// The limits on error leave 0.01 to 0.03 to the measurements (docs/forecast.md).
func TestTargets(t *testing.T) {
	if testing.Short() {
		t.Skip("forecasts every hour of weeks")
	}
	type limits struct{ wape, mean float64 }
	for _, w := range []struct {
		name, from, to string
		history        func(testing.TB) *arrivals.History
		jobs, batches  limits
		long           bool
	}{
		{"philly", "2017-10-09", "2017-11-06", philly, limits{0.74, 0.88}, limits{0.26, 0.27}, false},
		{"venus", "2020-07-26", "2020-08-09", venus, limits{0.41, 0.46}, limits{}, false},
		{"venus", "2020-07-01", "2020-09-01", venus, limits{0.44, 0.46}, limits{}, true},
	} {
		for _, method := range []string{"ridge", arrivals.DefaultMethod} {
			t.Run(w.name+" "+w.from+" "+method, func(t *testing.T) {
				t.Parallel()
				if w.long {
					testshared.Long(t)
				}
				check := func(s *arrivals.Score, want limits) {
					t.Logf("%s: wape %.3f, of the mean %.3f, bias %.3f, coverage %.3f (%.3f), burstiness %.2f",
						s.Count, s.WAPE, s.WAPEMean, s.Bias, s.Coverage80, s.Coverage80Mid, s.Burstiness)
					if s.WAPE > want.wape || s.WAPEMean > want.mean {
						t.Errorf("%s: wape %.3f, of the mean %.3f; want at most %.2f and %.2f",
							s.Count, s.WAPE, s.WAPEMean, want.wape, want.mean)
					}
					if s.Bias < 0.9 || s.Bias > 1.1 {
						t.Errorf("%s: bias %.3f is not within 0.9 and 1.1", s.Count, s.Bias)
					}
					if s.Coverage80 < 0.75 || s.Coverage80Mid > 0.85 {
						t.Errorf("%s: 80 %% intervals cover %.3f, %.3f with the bounds counted half; want 0.75 to 0.85",
							s.Count, s.Coverage80, s.Coverage80Mid)
					}
				}
				jobs, batches := evaluate(t, w.history(t), method, w.from, w.to)
				check(jobs, w.jobs)
				if w.batches != (limits{}) {
					check(batches, w.batches)
				}
			})
		}
	}
}
