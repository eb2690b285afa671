package paper

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/workload/fetch"
)

var update = flag.Bool("update", false, "write the page and its plots anew")

const pagePath, readmePath = "../../docs/paper.md", "../../README.md"

// TestPage: the page, its plots and the README's table agree with the files of results.
func TestPage(t *testing.T) {
	if *update {
		if err := Write("results", pagePath, readmePath); err != nil {
			t.Fatal(err)
		}
	}
	text, plots, err := Render("results")
	if err != nil {
		t.Fatal(err)
	}
	same := func(path string, want []byte) {
		t.Helper()
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the results give: write it with -update", path)
		}
	}
	same(pagePath, text)
	readme, err := os.ReadFile(readmePath)
	if err != nil {
		t.Fatal(err)
	}
	if readme, err = Readme("results", readme); err != nil {
		t.Fatal(err)
	}
	same(readmePath, readme)
	for name, plot := range plots {
		same(filepath.Join(strings.TrimSuffix(pagePath, ".md"), name), plot)
	}
}

// TestUnitsAgain: of every kind of unit, and every method, the cheapest one gives the values in the results to the
// digit; of the default and of presets drawn every hour, one of each window and scheduler. Kinds that take long, and
// those whose trace is not at hand, are left out.
func TestUnitsAgain(t *testing.T) {
	const short = 3 // seconds
	known, err := Read("results")
	if err != nil {
		t.Fatal(err)
	}
	shared := cmp.Or(os.Getenv("AUTOSCHED_SHARED"), filepath.Join("..", "..", "..", "shared"))
	data := &Data{Folder: filepath.Join(shared, "traces")}
	cheapest := map[string]*Unit{}
	all := allUnits()
	for i := range all {
		u := &all[i]
		kind := u.Experiment
		if kind == "methods" {
			part := strings.SplitN(u.ID(), "/", 4)
			kind = path.Dir(part[3])
			if kind == "default" && ofAll(windowOf(part[1])) || kind == "random-preset" {
				kind = path.Join(kind, part[1], part[2])
			}
		}
		better := func(than *Unit) bool {
			return than == nil || (u.Data == "") && than.Data != "" ||
				(u.Data == "") == (than.Data == "") && u.Seconds < than.Seconds
		}
		if known[u.ID()] != nil && better(cheapest[kind]) {
			cheapest[kind] = u
		}
	}
	tried := map[string]bool{}
	for _, kind := range slices.Sorted(maps.Keys(cheapest)) {
		u := cheapest[kind]
		t.Run(kind, func(t *testing.T) {
			if u.Seconds > short {
				testshared.Long(t)
			}
			if u.Peer != "" {
				t.Skip("needs another simulator")
			}
			if u.Data != "" && data.path(u.Data) == "" {
				t.Skipf("%s is not in %s", u.Data, data.Folder)
			}
			tried[u.Experiment] = true
			got, err := u.Measure(context.Background(), data)
			if err != nil {
				t.Fatal(err)
			}
			var was bytes.Buffer
			if err := json.Compact(&was, known[u.ID()].Values); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Values, was.Bytes()) {
				t.Errorf("%s: %s, the result has %s", u.ID(), got.Values, was.Bytes())
			}
		})
	}
	for _, u := range all {
		if u.Core && u.Data == "" && u.Seconds <= short && !tried[u.Experiment] {
			t.Errorf("no unit of %s is measured again", u.Experiment)
			tried[u.Experiment] = true
		}
	}
}

// TestFetchedTrace: what trace fetch philly writes can be measured in the place of Philly's file.
func TestFetchedTrace(t *testing.T) {
	var log []string
	began := time.Date(2017, 9, 20, 0, 0, 0, 0, time.UTC)
	inHistory := 0
	for i := range 1500 {
		at := began.Add(time.Duration(i) * 20 * time.Minute)
		if k := at.Sub(began) / day; k >= 6 && k < 6+featureDays { // before 10 October
			inHistory++
		}
		text := func(after time.Duration) string { return at.Add(after).Format("2006-01-02 15:04:05") }
		log = append(log, fmt.Sprintf(`{"status": "Pass", "vc": "v", "jobid": "j%d", "submitted_time": %q, "user": "u", `+
			`"attempts": [{"start_time": %q, "end_time": %q, "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]}]}`, i, text(0),
			text(time.Minute), text(time.Duration(1+i%90)*10*time.Minute)))
	}
	member := "[" + strings.Join(log, ",\n") + "]"
	var archive bytes.Buffer
	z := gzip.NewWriter(&archive)
	w := tar.NewWriter(z)
	head := tar.Header{Name: "trace-data/cluster_job_log", Mode: 0o644, Size: int64(len(member))}
	if err := w.WriteHeader(&head); err != nil {
		t.Fatal(err)
	}
	_, err := w.Write([]byte(member))
	if err := errors.Join(err, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		http.ServeContent(to, r, "a.tar.gz", began, bytes.NewReader(archive.Bytes()))
	}))
	defer server.Close()
	data := &Data{Folder: t.TempDir()}
	source := fetch.Sources[0]
	source.URL, source.Size, source.SHA256 = server.URL, 0, ""
	to := filepath.Join(data.Folder, phillyFile)
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := (&fetch.Download{Source: source, To: to, Show: func(string, ...any) {}}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	f, err := features(t.Context(), data, windowOf("philly"), "themis")
	if err != nil || f.Jobs != inHistory || f.Load <= 0 {
		t.Errorf("%+v, want %d jobs: %v", f, inHistory, err)
	}
}

// TestUnitsAreNamedOnce: every unit has a name of its own, and every figure has units.
func TestUnitsAreNamedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, u := range allUnits() {
		if seen[u.ID()] {
			t.Errorf("two units are %s", u.ID())
		}
		seen[u.ID()] = true
	}
	for _, f := range Figures {
		if units, err := Units(f.ID, false); err != nil || len(units) == 0 {
			t.Errorf("figure %s: %d units, %v", f.ID, len(units), err)
		}
	}
	if _, err := Units("99", false); err == nil {
		t.Error("a figure 99 is accepted")
	}
}

// TestMeasureResumes: a unit that the results have is not measured again, and one whose trace is missing is named.
func TestMeasureResumes(t *testing.T) {
	units, err := Units("", true)
	if err != nil {
		t.Fatal(err)
	}
	units = slices.DeleteFunc(units, func(u Unit) bool { return !strings.HasSuffix(u.ID(), "/themis/default/1") })
	r := Run{Results: t.TempDir(), Traces: t.TempDir(), Commit: "x", Jobs: 2}
	left, err := r.Left(units)
	if err != nil || len(left) != len(units) {
		t.Fatalf("%d of %d are left: %v", len(left), len(units), err)
	}
	left = slices.DeleteFunc(left, func(u Unit) bool {
		return u.Data == "" && !strings.Contains(u.ID(),
			"pai-like-0.9")
	})
	missing, err := r.Measure(context.Background(), left)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := r.Left(left); err != nil || len(again) != len(missing) || len(again) == len(left) {
		t.Errorf("%d are left of %d, %d without a trace: %v", len(again), len(left), len(missing), err)
	}
}

// TestCheck: a result that comes out the same is of the new commit and keeps its times, another is replaced and named,
// and the file has a line of each.
func TestCheck(t *testing.T) {
	units, err := Units("", true)
	if err != nil {
		t.Fatal(err)
	}
	units = slices.DeleteFunc(units, func(u Unit) bool {
		return !strings.HasPrefix(u.ID(), "methods/pai-like-0.9/") || !strings.HasSuffix(u.ID(), "/default/1")
	})
	r := Run{Results: t.TempDir(), Commit: "old", Jobs: 1}
	if _, err := r.Measure(t.Context(), units); err != nil {
		t.Fatal(err)
	}
	if others, err := r.Others(units); err != nil || len(others) != 0 {
		t.Errorf("%d results of another commit than their own: %v", len(others), err)
	}
	known, err := Read(r.Results)
	if err != nil {
		t.Fatal(err)
	}
	wrong, right := known["methods/pai-like-0.9/lucid/default/1"], known["methods/pai-like-0.9/themis/default/1"]
	was := wrong.Values
	wrong.Values, right.Times = json.RawMessage(`{"avg_jct_s": 1}`), map[string]float64{"a": 2}
	file := resultFile(r.file(&units[0]))
	for _, x := range []*Result{wrong, right} {
		if err := file.Append(x); err != nil {
			t.Fatal(err)
		}
	}
	r.Commit = "new"
	others, err := r.Others(units)
	if err != nil || len(others) != 3 {
		t.Fatalf("%d results of other commits: %v", len(others), err)
	}
	differ, missing, err := r.Check(t.Context(), others)
	if err != nil || len(missing) > 0 || !slices.Equal(differ, []string{wrong.Unit}) {
		t.Errorf("%v differ, %v missing: %v", differ, missing, err)
	}
	if known, err = Read(r.Results); err != nil {
		t.Fatal(err)
	}
	if x := known[wrong.Unit]; x.Commit != "new" || !sameValues(x.Values, was) {
		t.Errorf("%s of %s, want %s", x.Values, x.Commit, was)
	}
	if x := known[right.Unit]; x.Commit != "new" || x.Times["a"] != 2 {
		t.Errorf("%+v, want its times", x)
	}
	if text, err := os.ReadFile(file.Path); err != nil || bytes.Count(text, []byte("\n")) != 3 {
		t.Errorf("%s: %v", text, err)
	}
}

// TestSpan: a method that is twice as fast on every stretch has an interval of 2, and one with a bad stretch is wide.
func TestSpan(t *testing.T) {
	of := func(last float64) cell {
		o := &Outcome{Stretches: make([]float64, stretches)}
		for i := range o.Stretches {
			o.Stretches[i] = 10
		}
		o.Stretches[stretches-1] = last
		return cell{o}
	}
	if lo, hi := of(10).span(cell{{Stretches: slices.Repeat([]float64{5}, stretches)}}); lo != 2 || hi != 2 {
		t.Errorf("%g to %g, want 2", lo, hi)
	}
	if lo, hi := of(1000).span(of(10)); lo > 1.01 || hi < 5 {
		t.Errorf("%g to %g, want from 1 to more than 5", lo, hi)
	}
}

// TestRules: each rule finds what separates the places, and is right on traces left out where that holds there, too.
func TestRules(t *testing.T) {
	of := func(pays func(i int) bool) (all []place) {
		for i := range 60 {
			x := place{x: &window{set: string(rune('a' + i%3))}, scheduler: schedulerNames[i/3%3],
				Features: Features{Load: float64(i * 7 % 10), Waiting: float64(i*3%20) / 20,
					Knobs: []int{0, 0, 2, 2}[i%4], Wide: float64(i / 5 % 2)}}
			if pays(i) {
				x.once = .1
			}
			all = append(all, x)
		}
		return all
	}
	byOne := of(func(i int) bool { return i*3%20 > 11 })
	byTwo := of(func(i int) bool { return i*3%20 > 11 && i*7%10 <= 4 })
	byThree := of(func(i int) bool { return i*7%10 > 4 && i%4 > 1 && i/5%2 == 0 })
	byScheduler := of(func(i int) bool { return i/3%3 == 0 })
	for _, c := range []struct {
		learn func([]place) rule
		all   []place
		text  string
	}{
		{one, byOne, "waiting above 0.575"},
		{two, byTwo, "load above 0.5, waiting above 0.775"}, // as good as the one it is made from, and before it
		{learners[3].learn, byScheduler, "tiresias yes, themis no, lucid no"},
		{learners[4].learn, byThree, "load above 4.5, knobs above 1, wide at most 0.5"},
	} {
		if r := c.learn(c.all); r.text != c.text || r.right(c.all) != len(c.all) {
			t.Errorf("%s, right on %d of %d, want %s", r.text, r.right(c.all), len(c.all), c.text)
		}
		if right := leaveOut(c.all, c.learn); slices.Contains(right, false) {
			t.Errorf("%s: wrong on a trace left out", c.text)
		}
	}
	// On a trace that is the opposite of the others, a rule is wrong.
	odd := of(func(i int) bool { return (i*3%20 > 11) == (i%3 > 0) })
	right := leaveOut(odd, one)
	if slices.Contains(right[:1], true) {
		t.Error("a rule knows the trace that is left out")
	}
	for _, c := range []struct {
		wins, losses int
		p            float64
	}{{5, 0, .0625}, {0, 6, .03125}, {3, 3, 1}, {0, 0, 1}, {9, 1, .021484375}} {
		if got := signTest(c.wins, c.losses); math.Abs(got-c.p) > 1e-12 {
			t.Errorf("%d wins, %d losses: %g, want %g", c.wins, c.losses, got, c.p)
		}
	}
}

// TestGained: the mean change, its interval and the losses of a method that is twice as fast on one scheduler.
func TestGained(t *testing.T) {
	all := map[string]*Result{}
	add := func(scheduler, method string, each float64) {
		o := Outcome{AvgJCT: each, Stretches: slices.Repeat([]float64{each}, stretches)}
		text, err := json.Marshal(&o)
		if err != nil {
			t.Fatal(err)
		}
		all[methodID("philly", scheduler, method, 1)] = &Result{Values: text}
	}
	for _, s := range schedulerNames {
		add(s, "default", 10)
	}
	r := results{all: all}
	if _, ok := r.gained("daily", anyWindow); ok {
		t.Error("a method without results has a gain")
	}
	add("tiresias", "daily", 5)
	add("lucid", "daily", 10.2)
	g, ok := r.gained("daily", anyWindow)
	want := math.Sqrt(.5*1.02) - 1
	if !ok || g.n != 2 || g.losses != 1 || math.Abs(g.worst-.02) > 1e-9 || math.Abs(g.change-want) > 1e-9 ||
		math.Abs(g.lo-want) > 1e-9 || math.Abs(g.hi-want) > 1e-9 {
		t.Errorf("%+v, want a change of %g", g, want)
	}
	if got := g.text() + ", " + g.lost(); got != "-28.6 % (-28.6 % to -28.6 %), 1 of 2, worst +2.0 %" {
		t.Error(got)
	}
	if got := r.broken("daily"); r.err != nil || got != "" {
		t.Errorf("%q, %v, want no guards compared", got, r.err)
	}
	for seed, text := range []string{`{"trace": "a", "guards_broken": 2}`, `{"trace": "a", "guards_broken": 0}`} {
		all[methodID("pai", "themis", "autosched", seed+1)] = &Result{Values: json.RawMessage(text)}
	}
	if got := r.broken("autosched"); got != "1 of 2" {
		t.Errorf("guards broken: %q", got)
	}
	all[methodID("pai", "themis", "default", 1)] = &Result{Values: json.RawMessage(`{"trace": "b"}`)}
	if r.cell("pai", "themis", "default"); r.err == nil || !strings.Contains(r.err.Error(), "of the trace b") {
		t.Errorf("a window of two traces: %v", r.err)
	}
}
