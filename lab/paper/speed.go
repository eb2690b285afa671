package paper

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/autosched/autosched/internal/cputime"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// Speed is a policy of another simulator beside ours on the same jobs and cluster.
type Speed struct {
	Jobs   int     `json:"jobs"`
	Theirs float64 `json:"avg_jct_s_theirs"`
	Ours   float64 `json:"avg_jct_s_ours"`
}

// peerRuns are policies of other simulators with what is closest to them here, without rebuilding their oddities.
var peerRuns = []struct {
	peer, policy, scheduler string
	set                     []string
	options                 simulator.Options
}{
	{"Tiresias", "fifo", "fifo", []string{"backfill=false"}, tiresiasOptions},
	{"Tiresias", "shortest", "srtf", []string{"by=time"}, tiresiasOptions},
	{"Tiresias", "dlas-gpu", "tiresias", []string{"priority=service", "queues=3", "queue_thresholds=3250,7200",
		"starve_limit=0"}, tiresiasOptions},
	{"Lucid", "fifo", "fifo", []string{"backfill=false"}, lucidOptions},
	{"Lucid", "sjf", "sjf", []string{"backfill=false"}, lucidOptions},
	{"Lucid", "srtf", "srtf", nil, lucidOptions},
	{"Lucid", "tiresias", "tiresias", []string{"priority=service", "queues=2", "queue_thresholds=18000",
		"starve_limit=0"}, lucidOptions},
	{"TitanSched", "yarn-cs", "fifo", []string{"backfill=true"}, titanOptions},
	{"TitanSched", "tiresias", "tiresias", []string{"priority=service", "queues=2", "queue_thresholds=14400",
		"order=submit", "starve_limit=0"}, titanOptions},
	{"TitanSched", "themis", "themis", []string{"lease_priority=time", "lease_term=300"}, titanOptions},
}

var (
	tiresiasOptions = simulator.Options{Placement: simulator.Count, Peer: simulator.Peer{NoRestartCost: true}}
	lucidOptions    = simulator.Options{Placement: simulator.ConsolidateWhole}
	titanOptions    = simulator.Options{Round: time.Minute, Peer: simulator.Peer{RestartOutsideJCT: true,
		RestartOutsideService: true, QuotaOnly: true}}
)

// speedWindow is the window whose jobs are simulated.
const speedWindow = "philly-like-0.9"

func speedUnits() (out []Unit) {
	for i := range peerRuns {
		r := &peerRuns[i]
		out = append(out, Unit{Experiment: "speed", Name: r.peer + "/" + r.policy, Peer: r.peer, Rank: 4, Seconds: 30,
			measure: func(ctx context.Context, d *Data) (any, map[string]float64, error) {
				return measureSpeed(ctx, d, i)
			}})
	}
	return out
}

//go:embed peers.py
var peersProgram string

func measureSpeed(ctx context.Context, d *Data, run int) (any, map[string]float64, error) {
	r := &peerRuns[run]
	o, err := d.load(ctx, windowOf(speedWindow), r.scheduler)
	if err != nil {
		return nil, nil, err
	}
	jobs := o.Trace.Window(o.From, o.To).Jobs()
	for i := range jobs { // theirs count whole seconds
		jobs[i].Submit = (jobs[i].Submit - o.From).Truncate(time.Second)
		jobs[i].Duration = max(jobs[i].Duration.Truncate(time.Second), time.Second)
	}
	w, err := workload.New(o.Trace.Name(), o.Trace.Zero(), jobs)
	if err != nil {
		return nil, nil, err
	}
	theirs, err := runPeer(ctx, d.Peers, r.peer, r.policy, w, o.Cluster.TotalGPUs()/8)
	if err != nil {
		return nil, nil, fmt.Errorf("%s, %s: %w", r.peer, r.policy, err)
	}
	s, err := schedulers.Find(r.scheduler)
	if err != nil {
		return nil, nil, err
	}
	c, err := s.Space.Parse(s.Space.Default(), r.set)
	if err != nil {
		return nil, nil, err
	}
	var sim simulator.Sim
	began, runs := cputime.Process(), 0.
	for ; runs == 0 || cputime.Process()-began < time.Second/2; runs++ {
		if err := sim.Start(o.Cluster, w, s.New(c), r.options); err != nil {
			return nil, nil, err
		}
		if err := sim.Run(ctx); err != nil {
			return nil, nil, err
		}
	}
	took := (cputime.Process() - began).Seconds() / runs
	ours := simulator.Describe(sim.Outcomes(nil))
	return &Speed{Jobs: w.Len(), Theirs: roundTo(theirs.AvgJCT, 3), Ours: roundTo(ours.AvgJCT, 3)},
		map[string]float64{"theirs_over_ours": math.Round(theirs.Seconds / took)}, nil
}

// peerResult is what peers.py prints.
type peerResult struct {
	Seconds float64 `json:"seconds"`
	AvgJCT  float64 `json:"avg_jct_s"`
}

// runPeer simulates jobs in the peer's repository in a folder, by the python3 of the path.
func runPeer(ctx context.Context, folder, peer, policy string, w *workload.Workload, nodes int) (got peerResult,
	err error) {
	dir, err := os.MkdirTemp("", "peer")
	if err != nil {
		return got, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Mkdir(filepath.Join(dir, "vc"), 0o777); err != nil { // Lucid's files
		return got, err
	}
	var table bytes.Buffer
	rows := csv.NewWriter(&table)
	all := [][]string{{"id", "submit", "duration", "gpus"}}
	for i, j := range w.Jobs() {
		all = append(all, []string{strconv.Itoa(i), strconv.Itoa(int(j.Submit.Seconds())),
			strconv.Itoa(int(j.Duration.Seconds())), strconv.Itoa(int(math.Ceil(j.GPUs.Count())))})
	}
	if err := rows.WriteAll(all); err != nil {
		return got, err
	}
	path := filepath.Join(dir, "table.csv")
	if err := os.WriteFile(path, table.Bytes(), 0o666); err != nil {
		return got, err
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return got, err
	}
	cmd := exec.CommandContext(ctx, "python3", "-c", peersProgram, peer, filepath.Join(folder, peer), path,
		strconv.Itoa(nodes), policy, dir)
	var notes bytes.Buffer
	cmd.Stderr = &notes
	text, err := cmd.Output()
	if err != nil {
		return got, fmt.Errorf("python3: %w: %s", err, lastLine(notes.Bytes()))
	}
	return got, json.Unmarshal(lastLine(text), &got)
}

func lastLine(text []byte) []byte {
	text = bytes.TrimSpace(text)
	return text[bytes.LastIndexByte(text, '\n')+1:]
}

// speedTable compares simulators.
func (p *page) speedTable() {
	var rows [][]string
	for i := range peerRuns {
		r := &peerRuns[i]
		id := "speed/" + r.peer + "/" + r.policy
		x := read[Speed](&p.results, id)
		if x == nil {
			continue
		}
		rows = append(rows, []string{r.peer, r.policy, r.scheduler, fmt.Sprint(x.Jobs), number("%.0f", x.Theirs),
			number("%.0f", x.Ours), number("%.0f", p.all[id].Times["theirs_over_ours"])})
	}
	if len(rows) == 0 {
		return
	}
	p.printf(`
### Simulation speed beside the peers' own programs

The jobs of the window %s, simulated by the programs that the peers published, unchanged, and by what is closest
here, one after the other: average JCTs, and processor time of theirs over ours, of the simulation alone. Tiresias's
simulator counts GPUs and its restarts are free, and so are ours beside it; TitanSched decides once a minute, and its
restarts do not count in the JCT, as ours beside it. Its Themis asks jobs for their remaining time, which its own rigid jobs do
not answer: they get the true one; packages that its other policies import are empty. Where the averages differ, a
peculiarity of theirs is left out ([notes/peers.md](notes/peers.md) rebuilds all of them to the second). Not to be had: the
simulators of Themis's authors and of AutoSched, of which none is published. Repositories are named Tiresias, Lucid and
TitanSched in a folder --peers; they need a python3 with numpy and pandas.
`, speedWindow)
	p.table(3, "peer", "policy", "here", "jobs", "JCT, theirs", "JCT, ours", "times as fast")
	for _, r := range rows {
		p.row(r...)
	}
}
