package schedulers_test

import (
	"compress/gzip"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/schedulers/internal/peers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Golden results are the outcomes of a workload in other simulators, run unchanged:
// job by job. Each file is named <workload>.<simulator>.<policy>[.<config>],
// and everything needed to reproduce it is in that name and the tables below,
// so that a further file of a known kind is checked without new code.

// goldenClusters are the clusters that the workloads ran on.
var goldenClusters = map[string]workload.Cluster{
	"w200":     workload.Uniform(8, 8),
	"w1000":    workload.Uniform(16, 8),
	"philly2w": workload.Uniform(100, 8),
}

// fidelity is how a scheduler of ours and the loop are set to behave like one
// policy of another simulator. The additions of the file's config (thresholds, the
// decision grid) come on top.
type fidelity struct {
	scheduler string
	set       []string // parameters, as the command line takes them
	options   simulator.Options
	// config lists the settings that a file of this kind may name.
	config []string
	// optional lists further settings that it may leave out.
	optional []string
	// policy makes the policy where it is not the scheduler's New.
	policy func(space.Config, goldenName) simulator.Policy
	// flags lists settings without a value that it may name.
	flags []string
	// run is how the results are made where that takes more than one run.
	run func(*testing.T, goldenName, *workload.Workload) map[string]goldenRow
	// slack is by how much instants may differ, if at all.
	slack func(goldenName) time.Duration
	// services name a sample of service that the policy is to know.
	services string
}

// fidelities by <simulator>.<policy>. A scheme in the config that means another
// placement has an entry of its own, <simulator>.<policy>.<scheme>.
var fidelities = map[string]fidelity{
	// Lucid: decisions at events; the head of the line blocks, also for SJF.
	"lucid.fifo": {scheduler: "fifo", set: []string{"backfill=false"}, options: lucidEvents},
	"lucid.sjf":  {scheduler: "sjf", set: []string{"backfill=false"}, options: lucidEvents},
	// Its other policies have a clock of a second, on which restarts are work.
	"lucid.srtf": {scheduler: "srtf", options: lucidEvery(time.Second),
		policy: func(space.Config, goldenName) simulator.Policy {
			return peers.LucidSRTF()
		}},
	"lucid.tiresias": {scheduler: "tiresias", options: lucidEvery(time.Minute), config: []string{"thr"},
		policy: lucidTiresias},
	// Told true durations, with or without its profiler (of s nodes, for t
	// seconds, for f GPUs per node) and packing. Where jobs share, it
	// subtracts a float rate every second, or skips seconds, and ends may differ by
	// one.
	"lucid.lucid.oracle": {optional: []string{"s", "t", "f"}, flags: []string{"noprof", "nopack", "skip", "prof"},
		run: runLucid, slack: lucidSlack},

	// The Tiresias simulator: a GPU counter, free preemption. Its fjf backfills.
	"tiresias_sim.fifo.count":         {scheduler: "fifo", set: []string{"backfill=false"}, options: tiresiasSim},
	"tiresias_sim.fifo.yarn":          {scheduler: "fifo", set: []string{"backfill=false"}, options: tiresiasSimYarn},
	"tiresias_sim.fjf.count":          {scheduler: "fifo", set: []string{"backfill=true"}, options: tiresiasSim},
	"tiresias_sim.srtf.count":         {scheduler: "srtf", set: []string{"by=time"}, options: tiresiasSim},
	"tiresias_sim.srtf_gputime.count": {scheduler: "srtf", set: []string{"by=gpu_time"}, options: tiresiasSim},
	// Its Tiresias looks at jobs at its own instants.
	"tiresias_sim.dlas-gpu": {scheduler: "tiresias", set: []string{"priority=service"}, options: tiresiasSim,
		config: []string{"q"}, optional: []string{"starve"}, policy: tiresiasOriginal},
	"tiresias_sim.dlas-time": {scheduler: "tiresias", set: []string{"priority=time"}, options: tiresiasSim,
		config: []string{"q"}, optional: []string{"starve"}, policy: tiresiasOriginal},
	"tiresias_sim.dlas-gpu-gittins": {scheduler: "tiresias", set: []string{"priority=gittins"}, options: tiresiasSim,
		config: []string{"q"}, policy: tiresiasOriginal, services: "gittins_sample"},

	// TitanSched: rounds; its restarts hold GPUs but count neither as service
	// nor in the JCT; it stops jobs for others that then find no place.
	"titan.fifo-backfill": {scheduler: "fifo", set: []string{"backfill=true"}, options: titan, config: []string{"dt"}},
	"titan.tiresias": {scheduler: "tiresias", set: []string{"priority=service", "order=submit", "starve_limit=0"},
		options: titan, config: []string{"q", "dt"}},
	// Its shortest-first chooses by counts of GPUs and preempts no job.
	"titan.srtf-nonpreempt": {scheduler: "sjf", options: titan, config: []string{"dt"}, policy: titanShortest},
	"titan.themis": {scheduler: "themis", set: []string{"lease_priority=time"}, options: titanRounds,
		config: []string{"lease", "f", "dt"}, policy: titanThemis},
}

var (
	lucidEvents = simulator.Options{Placement: simulator.ConsolidateWhole}
	tiresiasSim = simulator.Options{Placement: simulator.Count,
		Peer: simulator.Peer{NoRestartCost: true, QuotaOnly: true}}
	tiresiasSimYarn = simulator.Options{Placement: simulator.FirstFit, Peer: simulator.Peer{NoRestartCost: true}}
	titan           = simulator.Options{Peer: simulator.Peer{RestartOutsideJCT: true, RestartOutsideService: true,
		QuotaOnly: true}}
)

// tiresiasOriginal promotes at a multiple of the time run, if the name says so.
func tiresiasOriginal(c space.Config, g goldenName) simulator.Policy {
	factor, _ := strconv.ParseFloat(g.config["starve"], 64)
	return peers.Tiresias(c, factor)
}

// goldenName is a golden file's name, taken apart.
type goldenName struct {
	workload string
	kind     string // of fidelities
	config   map[string]string
	flags    map[string]bool
}

// configToken is one setting in a golden file's name.
var configToken = regexp.MustCompile(`^(dt|thr|starve|lease|f|q|s|t)(\d+(?:\.\d+)?)((?:_\d+)*)(?:[._]|$)`)

// parseGolden takes a golden file's name apart, without its extension.
func parseGolden(name string) (goldenName, error) {
	parts := strings.SplitN(name, ".", 4)
	if len(parts) < 3 {
		return goldenName{}, fmt.Errorf("%s: want <workload>.<simulator>.<policy>[.<config>]", name)
	}
	g := goldenName{workload: parts[0], kind: parts[1] + "." + parts[2], config: map[string]string{},
		flags: map[string]bool{}}
	if _, ok := goldenClusters[g.workload]; !ok {
		return g, fmt.Errorf("%s: unknown workload %q", name, g.workload)
	}
	rest := ""
	if len(parts) == 4 {
		rest = parts[3]
	}
	scheme, more, _ := strings.Cut(rest, ".")
	if _, ok := fidelities[g.kind+"."+scheme]; ok {
		g.kind, rest = g.kind+"."+scheme, more
	}
	known, ok := fidelities[g.kind]
	if !ok {
		return g, fmt.Errorf("%s: no fidelity is known for %s", name, strings.TrimSuffix(g.kind+"."+scheme, "."))
	}
	for rest != "" {
		if end := strings.IndexAny(rest+".", "._"); slices.Contains(known.flags, rest[:end]) {
			g.flags[rest[:end]] = true
			rest = rest[min(end+1, len(rest)):]
			continue
		}
		m := configToken.FindStringSubmatch(rest)
		if m == nil {
			return g, fmt.Errorf("%s: cannot read %q", name, rest)
		}
		ok := false
		for _, c := range slices.Concat(known.config, known.optional) {
			ok = ok || c == m[1]
		}
		if !ok {
			return g, fmt.Errorf("%s: %s does not know %q", name, g.kind, m[1])
		}
		g.config[m[1]] = m[2] + m[3]
		rest = rest[len(m[0]):]
	}
	for _, c := range known.config {
		if g.config[c] == "" {
			return g, fmt.Errorf("%s: %s wants %q", name, g.kind, c)
		}
	}
	return g, nil
}

// settle turns a name's config into parameters and options.
func (g goldenName) settle() (set []string, o simulator.Options, err error) {
	f := fidelities[g.kind]
	set, o = append(set, f.set...), f.options
	if dt := g.config["dt"]; dt != "" {
		if o.Round, err = time.ParseDuration(dt + "s"); err != nil {
			return nil, o, err
		}
	}
	if term := g.config["lease"]; term != "" {
		set = append(set, "lease_term="+term)
	}
	if q := g.config["q"]; q != "" { // <queues>_<threshold>_<threshold>...
		queues, thresholds, _ := strings.Cut(q, "_")
		set = append(set, "queues="+queues, "queue_thresholds="+strings.ReplaceAll(thresholds, "_", ","))
	}
	return set, o, nil
}

func TestGolden(t *testing.T) {
	t.Run("slurm", goldenSlurm)
	t.Run("kubernetes", func(t *testing.T) {
		goldenKueue(t)
		goldenVolcano(t)
	})
	testshared.Full(t)
	const ext = ".csv.gz"
	dir := testshared.Path(t, "golden", "simulator")
	files, err := filepath.Glob(filepath.Join(dir, "results", "*"+ext))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no golden results found")
	}
	workloads := map[string]*workload.Workload{}
	for i, file := range files {
		if testing.Short() && i%4 != 0 {
			continue
		}
		name := strings.TrimSuffix(filepath.Base(file), ext)
		t.Run(name, func(t *testing.T) {
			g, err := parseGolden(name)
			if err != nil {
				t.Fatal(err)
			}
			w := workloads[g.workload]
			if w == nil {
				w = readGoldenWorkload(t, filepath.Join(dir, "workloads"), g.workload)
				workloads[g.workload] = w
			}
			slack := time.Duration(0)
			if f := fidelities[g.kind].slack; f != nil {
				slack = f(g)
			}
			compareGolden(t, w, readGoldenResults(t, file), runGolden(t, g, w), slack)
		})
	}
}

// make is the policy and the options that reproduce a peer's run.
func (g goldenName) make(t testing.TB) (simulator.Policy, simulator.Options) {
	t.Helper()
	set, opts, err := g.settle()
	if err != nil {
		t.Fatal(err)
	}
	s, err := schedulers.Find(fidelities[g.kind].scheduler)
	if err != nil {
		t.Fatal(err)
	}
	config, err := s.Space.Parse(s.Space.Default(), set)
	if err != nil {
		t.Fatal(err)
	}
	policy := s.New(config)
	if f := fidelities[g.kind]; f.policy != nil {
		policy = f.policy(config, g)
	}
	if name := fidelities[g.kind].services; name != "" {
		var past []simulator.EndedJob
		readTable(t, filepath.Join(testshared.Path(t, "golden", "simulator"), "workloads", name+".csv"), func(r row) {
			past = append(past, simulator.EndedJob{GPUs: 1, RunTime: r.seconds("duration")})
		})
		opts.Past = simulator.NewPast(past)
	}
	return policy, opts
}

func runGolden(t *testing.T, g goldenName, w *workload.Workload) map[string]goldenRow {
	t.Helper()
	if run := fidelities[g.kind].run; run != nil {
		return run(t, g, w)
	}
	policy, opts := g.make(t)
	var sim simulator.Sim
	if err := sim.Start(goldenClusters[g.workload], w, policy, opts); err != nil {
		t.Fatal(err)
	}
	if err := sim.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	rows := map[string]goldenRow{}
	for _, o := range sim.Outcomes(nil) {
		rows[sim.JobName(o.ID)] = goldenRow{start: o.Start, end: o.End, queue: o.Wait, preemptions: o.Preemptions}
	}
	return rows
}

// goldenRow has the fields of a job that are compared exactly.
type goldenRow struct {
	start, end, queue time.Duration
	preemptions       int
}

func (r goldenRow) String() string {
	return fmt.Sprintf("start %s end %s queue_delay %s preemptions %d",
		seconds(r.start), seconds(r.end), seconds(r.queue), r.preemptions)
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

// near reports whether instants and spans differ by no more than a slack.
func (r goldenRow) near(o goldenRow, slack time.Duration) bool {
	return r.preemptions == o.preemptions &&
		max((r.start-o.start).Abs(), (r.end-o.end).Abs(), (r.queue-o.queue).Abs()) <= slack
}

func compareGolden(t *testing.T, w *workload.Workload, want, got map[string]goldenRow, slack time.Duration) {
	t.Helper()
	const show = 8
	if len(want) != w.Len() || len(got) != w.Len() {
		t.Errorf("%d jobs in the workload, %d in the golden file, %d ended", w.Len(), len(want), len(got))
	}
	wrong := 0
	for i := range w.Jobs() {
		j := &w.Jobs()[i]
		g, w := got[j.ID], want[j.ID]
		if g.near(w, slack) {
			continue
		}
		if wrong++; wrong <= show {
			t.Errorf("job %s (%d GPUs, submitted %s, duration %s):\n got %v\nwant %v",
				j.ID, j.GPUs.Whole(), seconds(j.Submit), seconds(j.Duration), g, w)
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d jobs differ", wrong, w.Len())
	}
}

func readGoldenWorkload(t testing.TB, dir, name string) *workload.Workload {
	t.Helper()
	file := filepath.Join(dir, name+".csv")
	if _, err := os.Stat(file); err != nil {
		file += ".gz"
	}
	var jobs []workload.Job
	readTable(t, file, func(r row) {
		// The peers ran these workloads as one pool: vc is left out.
		jobs = append(jobs, workload.Job{ID: r.text("job_id"), Submit: r.seconds("submit_time_s"),
			Duration: r.seconds("duration_s"), GPUs: workload.GPUs(r.integer("num_gpus"))})
	})
	w, err := workload.New(name, time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func readGoldenResults(t *testing.T, file string) map[string]goldenRow {
	t.Helper()
	rows := map[string]goldenRow{}
	readTable(t, file, func(r row) {
		rows[r.text("job_id")] = goldenRow{start: r.seconds("start"), end: r.seconds("end"),
			queue: r.seconds("queue_delay"), preemptions: r.integer("preemptions")}
	})
	return rows
}

// row is a line of a table, by the names in its header.
type row struct {
	t      testing.TB
	at     string
	column map[string]int
	fields []string
}

func (r row) text(name string) string {
	i, ok := r.column[name]
	if !ok {
		r.t.Fatalf("%s: there is no column %q", r.at, name)
	}
	return r.fields[i]
}

func (r row) number(name string) float64 {
	v, err := strconv.ParseFloat(r.text(name), 64)
	if err != nil {
		r.t.Fatalf("%s: %s: %v", r.at, name, err)
	}
	return v
}

func (r row) integer(name string) int { return int(r.number(name)) }

func (r row) seconds(name string) time.Duration {
	return time.Duration(math.Round(r.number(name) * float64(time.Second)))
}

// readTable reads a CSV file with a header, gzipped if its name says so.
func readTable(t testing.TB, file string, each func(row)) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(file, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	c := csv.NewReader(in)
	header, err := c.Read()
	if err != nil {
		t.Fatal(err)
	}
	column := map[string]int{}
	for i, name := range header {
		column[name] = i
	}
	for {
		fields, err := c.Read()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		line, _ := c.FieldPos(0)
		each(row{t: t, at: fmt.Sprintf("%s:%d", filepath.Base(file), line), column: column, fields: fields})
	}
}

func TestParseGolden(t *testing.T) {
	tests := []struct {
		name string
		kind string
		set  string // additions of the config
		dt   time.Duration
	}{
		{"w200.lucid.fifo", "lucid.fifo", "", 0},
		{"w1000.tiresias_sim.fifo.count", "tiresias_sim.fifo.count", "", 0},
		{"w1000.tiresias_sim.fifo.yarn", "tiresias_sim.fifo.yarn", "", 0},
		{"w200.titan.tiresias.q3_3600_36000.dt30", "titan.tiresias", "queues=3 queue_thresholds=3600,36000",
			30 * time.Second},
		{"w200.titan.tiresias.q5_60_600_6000_60000.dt7.5", "titan.tiresias",
			"queues=5 queue_thresholds=60,600,6000,60000", 7500 * time.Millisecond},
		{"w200.titan.tiresias.dt60.q2_14400", "titan.tiresias", "queues=2 queue_thresholds=14400", time.Minute},
		{"w200.tiresias_sim.dlas-gpu.q3_3250_7200.starve8", "tiresias_sim.dlas-gpu",
			"queues=3 queue_thresholds=3250,7200", 0},
		{"philly2w.titan.fifo-backfill.dt60", "titan.fifo-backfill", "", time.Minute},
		{"w200.titan.themis.lease300_f0.8.dt30", "titan.themis", "lease_term=300", 30 * time.Second},
		{"w1000.lucid.lucid.oracle.prof_s1_t300_f8", "lucid.lucid.oracle", "", 0},
		{"w1000.lucid.lucid.oracle.noprof.skip", "lucid.lucid.oracle", "", 0},
	}
	for _, tt := range tests {
		g, err := parseGolden(tt.name)
		if err != nil {
			t.Error(err)
			continue
		}
		if g.kind != tt.kind {
			t.Errorf("%s: kind %q, want %q", tt.name, g.kind, tt.kind)
		}
		set, opts, err := g.settle()
		if err != nil {
			t.Error(err)
			continue
		}
		if got := strings.Join(set[len(fidelities[g.kind].set):], " "); got != tt.set || opts.Round != tt.dt {
			t.Errorf("%s: set %q round %v, want %q, %v", tt.name, got, opts.Round, tt.set, tt.dt)
		}
	}
	for _, name := range []string{
		"w200.lucid",                            // no policy
		"w300.lucid.fifo",                       // no such workload
		"w200.lucid.lifo",                       // no such policy
		"w200.blox.fifo",                        // no such simulator
		"w200.tiresias_sim.fifo",                // no scheme
		"w200.tiresias_sim.fifo.greedy",         // no such scheme
		"w200.lucid.fifo.dt30",                  // not a setting of this kind
		"w200.lucid.fifo.noprof",                // nor is this
		"w200.titan.tiresias.q2_3600",           // no grid
		"w200.titan.tiresias.dt30",              // no thresholds
		"w200.titan.tiresias.q2_3600.dt30.fast", // not readable
	} {
		if g, err := parseGolden(name); err == nil {
			t.Errorf("%s was taken for %v", name, g)
		}
	}
}
