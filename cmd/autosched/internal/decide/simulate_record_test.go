package decide

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

func unzip(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestRecordings compares the series and the timeline of a run with the
// outcomes of its jobs.
func TestRecordings(t *testing.T) {
	testshared.Full(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	args := []string{"simulate", "--trace", "sample", "--to", "2017-10-11T00:00:00Z", "--nodes", "16", "--scheduler",
		"tiresias", "--preset", "ladder-7200x6", "--json"}
	run := append(args[:len(args):len(args)], "--series", at("s.csv.gz"), "--series-interval", "30m", "--timeline",
		at("t.json.gz"), "--plot", at("p.png"), "--jobs-out", at("j.csv"))
	code, out, errs := clitest.Run(run...)
	if code != 0 {
		t.Fatal(errs)
	}
	var report struct {
		Preemptions int     `json:"preemptions"`
		AvgJCT      float64 `json:"avg_jct_s"`
		Waiting     float64 `json:"avg_waiting_jobs"`
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	if report.Preemptions == 0 {
		t.Fatal("no job was preempted: the test shows nothing")
	}
	sum := func(rows [][]string, value func(col func(string) float64) float64) (total float64) {
		index := map[string]int{}
		for i, name := range rows[0] {
			index[name] = i
		}
		for _, row := range rows[1:] {
			total += value(func(name string) float64 {
				v, err := strconv.ParseFloat(row[index[name]], 64)
				if err != nil {
					t.Fatal(err)
				}
				return v
			})
		}
		return total
	}
	parse := func(text []byte) [][]string {
		rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	text, err := os.ReadFile(at("j.csv"))
	if err != nil {
		t.Fatal(err)
	}
	jobs, series := parse(text), parse(unzip(t, at("s.csv.gz")))
	held := sum(jobs, func(c func(string) float64) float64 { return c("gpus") * c("held_s") })
	inUse := sum(series, func(c func(string) float64) float64 { return c("seconds") * c("gpus_in_use") })
	waited := sum(jobs, func(c func(string) float64) float64 { return c("queue_s") })
	waiting := sum(series, func(c func(string) float64) float64 { return c("seconds") * c("waiting_jobs") })
	if last := series[len(series)-1]; last[slices.Index(series[0], "preemptions")] != fmt.Sprint(report.Preemptions) {
		t.Errorf("the series ends with %s, want %d preemptions", last, report.Preemptions)
	}
	bySize := sum(series, func(c func(string) float64) float64 {
		return c("seconds") * (c("waiting_jobs_1_gpus") + c("waiting_jobs_2-4_gpus") + c("waiting_jobs_5-8_gpus") +
			c("waiting_jobs_9+_gpus"))
	})
	ended := sum(series, func(c func(string) float64) float64 { return c("ended_jobs") })
	jct := sum(series, func(c func(string) float64) float64 {
		if c("ended_jobs") == 0 {
			return 0
		}
		return c("ended_jobs") * c("avg_jct_s")
	})
	var trace struct {
		TraceEvents []struct {
			Ph   string
			Dur  float64
			Args struct {
				GPUs float64 `json:"gpus"`
			}
		}
	}
	if err := json.Unmarshal(unzip(t, at("t.json.gz")), &trace); err != nil {
		t.Fatal(err)
	}
	drawn := 0.0
	for _, e := range trace.TraceEvents {
		if e.Ph == "X" {
			drawn += e.Dur / 1e6 * e.Args.GPUs
		}
	}
	// Means are written with six digits.
	for _, x := range [][2]float64{{inUse, held}, {waiting, waited}, {drawn, held}, {bySize, waited},
		{ended, float64(len(jobs) - 1)}, {jct / ended, report.AvgJCT}} {
		if math.Abs(x[0]-x[1]) > 1e-4*x[1] {
			t.Errorf("%g, want %g", x[0], x[1])
		}
	}
	img, err := os.ReadFile(at("p.png"))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := png.Decode(bytes.NewReader(img)); err != nil || p.Bounds().Dx() < 600 {
		t.Errorf("image: %v", err)
	}
	// Following a run does not change it.
	if _, plain, _ := clitest.Run(args...); !strings.Contains(plain,
		fmt.Sprintf(`"avg_jct_s": %s,`, strconv.FormatFloat(report.AvgJCT, 'f', -1, 64))) {
		t.Errorf("the average JCT is not %v in\n%s", report.AvgJCT, plain)
	}
}

// TestPlotSVG: well-formed, and the same bytes each time.
func TestPlotSVG(t *testing.T) {
	var first []byte
	for i := range 2 {
		path := filepath.Join(t.TempDir(), "p.svg")
		if code, _, errs := clitest.Run("simulate", "--trace", "sample", "--to", "2017-10-10T00:00:00Z", "--plot",
			path); code != 0 {
			t.Fatal(errs)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for d := xml.NewDecoder(bytes.NewReader(text)); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []string{"GPUs in use", "share of jobs", "queued"} {
			if !bytes.Contains(text, []byte(want)) {
				t.Errorf("%q is not in the figure", want)
			}
		}
		if i == 0 {
			first = text
		} else if !bytes.Equal(first, text) {
			t.Error("the bytes differ")
		}
	}
}

func TestModelsShow(t *testing.T) {
	code, text, errs := clitest.Run("forecast", "models", "show")
	if code != 0 {
		t.Fatal(errs)
	}
	for _, want := range []string{"TitanSched", "vgg19", "scales_badly", "Gavel", "ResNet-18/16", `"source":`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	// The output is a models file; changed, it changes a run.
	path := filepath.Join(t.TempDir(), "m.json")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	jct := func(more ...string) string {
		code, out, errs := clitest.Run(append([]string{"simulate", "--trace", "sample", "--to", "2017-10-11T00:00:00Z",
			"--nodes", "16", "--json"}, more...)...)
		if code != 0 {
			t.Fatal(errs)
		}
		var r struct {
			AvgJCT json.Number `json:"avg_jct_s"`
		}
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		return r.AvgJCT.String()
	}
	write(text)
	if a, b := jct(), jct("--models", path); a != b {
		t.Errorf("the built-in models from a file: %s, want %s", b, a)
	}
	write(`{"restart":{"source":"slow","steps":[{"gpus":1,"seconds":900}],"proportional_beyond":false}}`)
	if a, b := jct(), jct("--models", path); a == b {
		t.Error("restarts of 15 minutes change nothing")
	}
	if _, out, _ := clitest.Run("forecast", "models", "show", "--models", path); !strings.Contains(out,
		`"source": "slow"`) ||
		!strings.Contains(out, "vgg19") {
		t.Errorf("the file is not shown:\n%s", out)
	}
	write(`{"restart":{"source":"slow","step":[]}}`)
	if code, _, errs := clitest.Run("simulate", "--trace", "sample", "--models", path); code != 1 ||
		!strings.Contains(errs, `"step"`) {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestModelsLearn plants models, simulates recurring jobs under them, and learns
// the models back from the outcomes: restarts from a scheduler that
// stops jobs of any width, slowdowns from one that spreads them.
func TestModelsLearn(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	planted := `{"restart":{"source":"planted","steps":[{"gpus":1,"seconds":60},{"gpus":2,"seconds":90},{"gpus":3,"seconds":150},{"gpus":8,"seconds":240}],"proportional_beyond":true},
		"classes":{"source":"planted","list":[{"name":"ours","skew":0.01,"spread_slowdown":1.6,"utilization":0.5,"weight":1},{"name":"theirs","skew":0.02,"spread_slowdown":1.25,"utilization":0.5,"weight":1}]}}`
	if err := os.WriteFile(at("planted.json"), []byte(planted), 0o600); err != nil {
		t.Fatal(err)
	}
	var trace strings.Builder
	trace.WriteString("job_id,key,model,submit_time,duration_s,gpus\n")
	for i := range 8000 {
		key := i * 7 % 20
		model := []string{"ours", "theirs"}[key/5%2]
		gpus := []int{1, 2, 4, 8, 16}[key%5]
		// Runs of a key vary by 0.2 %.
		duration := float64(1500+400*((3*key+4)%20)) * (1 + .002*math.Sin(float64(i)))
		fmt.Fprintf(&trace, "%d,k%d,%s,2024-01-%02dT%02d:%02d:00Z,%.3f,%d\n",
			i, key, model, 1+i*300/86400, i*300/3600%24, i*300/60%60, duration, gpus)
	}
	if err := os.WriteFile(at("trace.csv"), []byte(trace.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	learn := func(nodes string, scheduler ...string) (*simulator.ModelSpec, string) {
		args := append([]string{"simulate", "--trace", at("trace.csv"), "--nodes", nodes, "--gpus-per-node", "8",
			"--models", at("planted.json"), "--jobs-out", at("jobs.csv"), "--scheduler"}, scheduler...)
		if code, _, errs := clitest.Run(args...); code != 0 {
			t.Fatal(errs)
		}
		code, out, errs := clitest.Run("forecast", "models", "learn", "--runs", at("jobs.csv"), "--out",
			at("learned.json"))
		if code != 0 {
			t.Fatal(errs)
		}
		in, err := os.Open(at("learned.json"))
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		got, err := simulator.ReadModels(in)
		if err != nil {
			t.Fatal(err)
		}
		return got, out
	}
	got, out := learn("10", "srtf")
	if got.Restart == nil {
		t.Fatalf("no restart cost: %s", out)
	}
	for i, want := range []float64{60, 90, 150, 240} {
		if s := got.Restart.Steps[i].Seconds; math.Abs(s-want) > .1*want {
			t.Errorf("restart step %d: %.1f s, want %g\n%s", i, s, want, out)
		}
	}
	got, out = learn("14", "tiresias", "--set", "pack_limit=0.5")
	found := 0
	if got.Classes != nil {
		for _, c := range got.Classes.List {
			if want := map[string]float64{"ours": 1.6}[c.Name]; want > 0 {
				found++
				if math.Abs(c.Slowdown-want) > .02*want || c.Weight != 0 {
					t.Errorf("%s: %.3f, want %g\n%s", c.Name, c.Slowdown, want, out)
				}
			}
		}
	}
	if found != 1 {
		t.Errorf("%d classes\n%s", found, out)
	}
}

func TestRecordingsMisuse(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"simulate --trace sample --series-interval 1ms", 2, "--series-interval"},
		{"simulate --trace sample --plot a.gif", 2, "--plot"},
		{"simulate --trace sample --series no/such/dir/a.csv", 1, "--series"},
		{"simulate --trace sample --timeline no/such/dir/a.json", 1, "--timeline"},
		{"simulate --trace sample --models no/such/file", 1, "--models"},
		{"forecast models show extra", 2, "extra"},
		{"forecast models learn --out x", 2, "--runs"},
		{"forecast models learn --runs x", 2, "--out"},
		{"forecast models learn --runs no/such/file --out x", 1, "no/such/file"},
	} {
		code, _, errs := clitest.Run(strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("autosched %s: exit %d, %q; want exit %d and %q", c.args, code, errs, c.code, c.want)
		}
	}
}

// The events of a run reported to the service are a trace of the same jobs: with a policy that
// stops none, and places none slower than alone.
func TestSimulateEventsAreATrace(t *testing.T) {
	events := filepath.Join(t.TempDir(), "events.jsonl.gz")
	code, _, errs := clitest.Run("simulate", "--trace", "sample", "--nodes", "20", "--scheduler", "fifo",
		"--events-out", events)
	if code != 0 {
		t.Fatal(errs)
	}
	want, _, err := trace.Open(t.Context(), "sample", trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, r, err := trace.Open(t.Context(), events, trace.Options{Strict: true})
	if err != nil || r.Format != "events" || got.Len() != want.Len() || !got.Zero().Equal(want.Zero()) {
		t.Fatalf("%v, %+v", err, r)
	}
	byID := map[string]workload.Job{}
	for _, j := range want.Jobs() {
		byID[j.ID] = j
	}
	for _, j := range got.Jobs() {
		if !j.HasWait {
			t.Fatalf("%s: no wait", j.ID)
		}
		j.Wait, j.HasWait = 0, false
		if w := byID[j.ID]; j != w {
			t.Fatalf("%+v, want %+v", j, w)
		}
	}
}
