package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/workload"
)

var update = flag.Bool("update", false, "write the golden files anew")

// named are rows of jobs by their names with their JCTs; -1 is that of a job that has not ended.
func named(of ...any) (out replay.JobRows) {
	for i := 0; i < len(of); i += 2 {
		row := replay.JobRow{ID: of[i].(string)}
		if jct := of[i+1].(float64); jct >= 0 {
			row.JobResult = round.JobResult{JCT: jct, Ended: true}
		}
		out = append(out, row)
	}
	return out
}

// numbered are rows of jobs with their JCTs.
func numbered(jcts []float64) (out replay.JobRows) {
	for i, v := range jcts {
		out = append(out, named(fmt.Sprint("job", i), v)...)
	}
	return out
}

// tiny is a report with a default, a preset, a control and an adaptive method.
func tiny() *document {
	r := &document{&replay.Report{
		Trace: "tiny", Digest: "d1935", From: "2017-10-09T00:00:00Z", To: "2017-10-09T03:00:00Z",
		Jobs: 3, HistoryJobs: 7,
		Cluster: workload.Uniform(5, 8), Load: .8, Scheduler: "tiresias", Objective: "avg_jct",
		Baseline: replay.Baseline{Method: "default", Configuration: "queues=3 order=submit", Assumed: true,
			Default: "queues=3 order=submit"},
		IntervalS: 3600, HorizonS: 14400,
		Futures: 4, Budget: 8, Seed: 1, Simulator: "1",
	}}
	decided(r, "")
	for i, name := range []string{"default", "preset", "random-preset", "autosched"} {
		m := replay.Method{Method: name, Description: "what it does, and why", Outcome: replay.Outcome{
			AvgJCT: 4000 - 500*float64(i), P50JCT: 60, P95JCT: 9000, P99JCT: 9500.5, AvgQueue: 100,
			Ratio: 4000 / (4000 - 500*float64(i)), Preemptions: i, Utilization: .75, FTFLe1: 1,
			Configuration: fmt.Sprintf("queues=%d order=submit", 3+i%2),
			Rows:          named("a", 60., "b", 1800.25, "c,d", 9600-500*float64(i))}}
		for k := range 4 {
			m.Series = append(m.Series,
				replay.Sample{AtS: float64(3600 * k), Waiting: 3 - k, Running: 1, BusyGPU: 10 * k})
		}
		if i >= 2 {
			m.Rounds, m.Changes, m.Evaluations, m.TuningPerRound = 2, 1, 16, .25
			m.Decisions = []replay.Decision{
				{At: "2017-10-09T01:00:00Z", AtS: 3600, Reason: "kept: none of 8 configurations is better",
					Ratio: 1, Configuration: "queues=3 order=submit", Evaluations: 8},
				{At: "2017-10-09T02:00:00Z", AtS: 7200, Adopted: true, Reason: `adopted: "x", gains 1.2x`,
					Ratio: 1.2, Configuration: "queues=5 order=submit", Evaluations: 8,
					Interval: &round.Interval{Low: 1.05, High: 1.4}, Search: round.SearchPortfolio, Why: "as set"},
			}
		}
		r.Methods = append(r.Methods, m)
	}
	return r
}

// long has n jobs and k rounds.
func long(n, k int) *document {
	r := tiny()
	r.Jobs = n
	for i := range r.Methods {
		m := &r.Methods[i]
		m.Rows, m.Series = nil, nil
		for j := range n {
			m.Rows = append(m.Rows, named(fmt.Sprint("job", j), float64(10+j*j%5003*(10-i)))...)
		}
		for j := range k {
			m.Series = append(m.Series, replay.Sample{AtS: float64(3600 * j), Waiting: j * 7 % 50, BusyGPU: j % 41})
		}
		if len(m.Decisions) > 0 {
			m.Decisions = nil
			for j := range k {
				m.Decisions = append(m.Decisions,
					replay.Decision{At: "2017-10-09T01:00:00Z", AtS: float64(3600 * j), Adopted: j%5 == 0, Reason: "r",
						Ratio: 1, Configuration: fmt.Sprint("queues=", j%5)})
			}
		}
	}
	return r
}

// TestWriteNoWallTime: the files of runs that differ in wall time alone are equal.
func TestWriteNoWallTime(t *testing.T) {
	var files [2][]string
	for i := range files {
		r, dir := tiny(), t.TempDir()
		r.Seeds = []uint64{1, 2}
		for k := range r.Methods {
			m := &r.Methods[k]
			m.TuningPerRound = float64(i)
			m.Seeds = []replay.Outcome{m.Outcome, m.Outcome}
		}
		if err := Write(r.Report, dir); err != nil {
			t.Fatal(err)
		}
		if own := r.Methods[0]; own.TuningPerRound != float64(i) || own.Seeds[0].TuningPerRound != float64(i) {
			t.Error("writing a report changes it")
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			files[i] = append(files[i], e.Name()+"\n"+string(text))
		}
	}
	if !slices.Equal(files[0], files[1]) {
		t.Error("the files differ")
	}
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	r := tiny()
	own := &r.Methods[3]
	second := own.Outcome
	second.AvgJCT, second.Decisions = 2525, second.Decisions[:1]
	own.Guards = &replay.Guards{Width: "1", WidthRatio: 2, ShortRatio: 1, P99Ratio: 1.1, Broken: []string{"x"}}
	r.Seeds, own.Seeds, own.Spread = []uint64{1, 2}, []replay.Outcome{own.Outcome, second}, .01
	own.Hindsight = &replay.Hindsight{RobustJCT: 2600, GuardedJCT: 2550, GuardedRobustJCT: 2650}
	if err := Write(r.Report, dir); err != nil {
		t.Fatal(err)
	}
	if err := Write(r.Report, dir); err != nil {
		t.Fatal("over an older report:", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"decisions.csv", "jobs.csv", "methods.csv", "report.html",
		"report.json", "seeds.csv"}; !slices.Equal(names, want) {
		t.Errorf("files: %v, want %v", names, want)
	}
	for _, name := range []string{"decisions.csv", "jobs.csv", "methods.csv", "seeds.csv"} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := csv.NewReader(bytes.NewReader(got)).ReadAll(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		golden := filepath.Join("testdata", name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from %s; if it should, run the test with -update:\n%s", name, golden, got)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var back replay.Report
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Methods) != 4 || len(back.Methods[3].Decisions) != 2 {
		t.Errorf("report.json lost methods or decisions: %s", b)
	}
}

func TestWriteIntoAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Write(&replay.Report{}, path); err == nil {
		t.Error("a report was written into a file")
	}
}

func render(t *testing.T, r *document) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.writeHTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var svgElement = regexp.MustCompile(`(?s)<svg.*?</svg>`)

// check that a page is whole, and fetches and runs nothing.
func check(t *testing.T, page string) {
	t.Helper()
	for _, svg := range svgElement.FindAllString(page, -1) {
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			_, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("svg: %v in %.300s", err, svg)
			}
		}
	}
	for _, bad := range []string{"NaN", "Inf", "ZgotmplZ", "url(", "@import", "<no value>"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page contains %q: …%.120s", bad, page[max(0, strings.Index(page, bad)-80):])
		}
	}
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	open := map[string]int{}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		open[n.Data]++
		switch n.Data {
		case "script", "link", "iframe", "object", "embed", "img", "image", "use", "base", "foreignObject", "a":
			t.Errorf("the page has <%s>", n.Data)
		}
		for _, a := range n.Attr {
			switch {
			case a.Key == "src" || a.Key == "href" || a.Key == "srcset" || a.Key == "action" ||
				strings.HasPrefix(a.Key, "on"):
				t.Errorf("<%s> has %s=%q", n.Data, a.Key, a.Val)
			case a.Key == "id" && ids[a.Val]:
				t.Errorf("id %q twice", a.Val)
			case a.Key == "id":
				ids[a.Val] = true
			}
		}
	}
	// The parser closes open tags; the text must close its own.
	for _, tag := range []string{"section", "table", "tr", "td", "th", "div", "svg", "details", "p", "dl", "ul",
		"main"} {
		closed := strings.Count(page, "</"+tag+">")
		if open[tag] != closed {
			t.Errorf("<%s>: %d opened, %d closed", tag, open[tag], closed)
		}
	}
}

func TestHTML(t *testing.T) {
	one, bare, none := tiny(), tiny(), tiny()
	one.Methods = one.Methods[:1]
	none.Methods = nil
	for i := range bare.Methods {
		m := &bare.Methods[i]
		m.Rows, m.Series, m.Decisions = nil, nil, nil
	}
	fixed := tiny()
	fixed.Methods = fixed.Methods[:2]
	many := tiny()
	for i := range many.Methods {
		many.Methods[i].Rows = numbered(slices.Repeat(many.Methods[i].Rows.JCTs(), 100))
	}
	zero := tiny()
	zero.From, zero.To = "?", ""
	for i := range zero.Methods {
		m := &zero.Methods[i]
		m.AvgJCT, m.P50JCT, m.Ratio, m.Rows, m.Series = 1, 0, 1, named("a", 0.), m.Series[:1]
	}
	synthetic := long(5000, 3000)
	synthetic.Synthetic = true
	for name, c := range map[string]struct {
		r    *document
		want []string
		not  []string
	}{
		"tiny": {tiny(), []string{"Keep what runs.", "Changes of configuration", "How to read", "the band is noise"},
			[]string{"SYNTHETIC"}},
		"many jobs": {decided(many, other), []string{"Change once.", "--set backfill=true"}, nil},
		"one method": {one, []string{"Keep what runs.", "Tuning every hour: not evaluated"},
			[]string{"Changes of configuration", "against the alternatives"}},
		"no method": {none, nil, []string{"Ratio to default</h2>"}},
		"no data":   {bare, []string{"too few jobs for an interval"}, []string{"Job completion times</h2>", "The cluster over time"}},
		"fixed only": {fixed, []string{"Tuning every hour: not evaluated"},
			[]string{"Decisions</h2>"}},
		"zeros": {zero, []string{"Keep what runs."}, nil},
		"long":  {synthetic, []string{"SYNTHETIC WORKLOAD", "1500 more rounds are in decisions.csv"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			page := render(t, c.r)
			check(t, page)
			for _, s := range c.want {
				if !strings.Contains(page, s) {
					t.Errorf("the page lacks %q", s)
				}
			}
			for _, s := range c.not {
				if strings.Contains(page, s) {
					t.Errorf("the page has %q", s)
				}
			}
			if page != render(t, c.r) {
				t.Error("a second rendering differs")
			}
		})
	}
}

func TestHTMLEscapes(t *testing.T) {
	const hostile = `</title></style><script>alert(1)</script><img src=x onerror="alert(1)">'"&{}url(http://x)`
	r := tiny()
	r.Trace, r.Digest, r.Scheduler, r.From, r.Simulator, r.Objective = hostile, hostile, hostile, hostile, hostile,
		hostile
	r.Notes = []string{hostile}
	for i := range r.Methods {
		m := &r.Methods[i]
		if i > 0 {
			m.Method = hostile
		}
		m.Description, m.Configuration = hostile, hostile
		for k := range m.Decisions {
			d := &m.Decisions[k]
			d.At, d.Reason, d.Configuration = hostile, hostile, hostile
		}
	}
	page := render(t, r)
	check(t, strings.ReplaceAll(page, "url(", ""))
	style := page[strings.Index(page, "<style>"):strings.Index(page, "</style>")]
	if strings.Contains(style, "alert") {
		t.Error("the style sheet holds names")
	}
	if !strings.Contains(page, "&lt;script&gt;alert(1)") {
		t.Error("the names are not shown")
	}
}

// TestCurves that stay small however many jobs there are.
func TestCurves(t *testing.T) {
	small, large := len(render(t, long(5000, 100))), len(render(t, long(50000, 100)))
	if large > small+small/20 {
		t.Errorf("%d bytes for 5,000 jobs, %d for 50,000", small, large)
	}
	r := long(5000, 100)
	for _, line := range regexp.MustCompile(`<path d="([^"]*)" class="curve`).FindAllStringSubmatch(render(t, r), -1) {
		if n := strings.Count(line[1], "L"); n == 0 || n > points {
			t.Errorf("a curve of %d points", n)
		}
	}
}

// TestIntervalOfSeeds: an interval over seeds that differ is wider.
func TestIntervalOfSeeds(t *testing.T) {
	r := long(1000, 1)
	a, b := &r.Methods[3], &r.Methods[0]
	lo, hi, _ := r.interval(a, b)
	for _, factor := range []float64{.8, 1, 1.2} {
		seed := a.Outcome
		seed.Rows = slices.Clone(seed.Rows)
		for i := range seed.Rows {
			seed.Rows[i].JCT *= factor
		}
		a.Seeds = append(a.Seeds, seed)
	}
	wideLo, wideHi, ok := r.interval(a, b)
	if !ok || wideHi-wideLo < 1.1*(hi-lo) {
		t.Errorf("%g to %g with seeds (%v), %g to %g with one", wideLo, wideHi, ok, lo, hi)
	}
	if again, _, _ := r.interval(a, b); again != wideLo {
		t.Errorf("%g, then %g", wideLo, again)
	}
}

func TestInterval(t *testing.T) {
	r := long(1000, 1)
	a, b := &r.Methods[3], &r.Methods[0]
	sa, sb := 0.0, 0.0
	for i := range a.Rows {
		sa += a.Rows[i].JCT
		sb += b.Rows[i].JCT
	}
	lo, hi, ok := r.interval(a, b)
	if mid := sb / sa; !ok || !(lo <= mid && mid <= hi) || lo < mid/2 || hi > 2*mid {
		t.Errorf("interval %v to %v (%v) around %v", lo, hi, ok, mid)
	}
	if _, _, ok := r.interval(a, a); ok {
		t.Error("a method differs from itself")
	}
}
