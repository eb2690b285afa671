package paper

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/synth"
	"github.com/autosched/autosched/workload/trace"
)

const day = 24 * time.Hour

// Files of recorded traces, relative to the folder of traces.
const (
	phillyFile = "philly/jobs.csv.gz"
	paiFile    = "pai2023/pods.csv.gz"
)

// Source says where to get a file of recorded traces for a folder of them.
func Source(file, folder string) string {
	switch file {
	case phillyFile:
		return "sia-simulator/traces/philly.csv of github.com/siasosp23/artifacts, its rows before 2017-11-06, and compress it; or " +
			"all jobs of the trace: autosched trace fetch philly --out " + filepath.Join(folder, file)
	case paiFile:
		return "openb_pod_list_default.csv of cluster-trace-gpu-v2023 in github.com/alibaba/clusterdata, its rows with a " +
			"creation_time before 12096000 (140 days), and compress it"
	case earthFile:
		return "the folder analysis/2_cluster characterization/Earth_vcs of github.com/S-Lab-System-Group/HeliosArtifact, " +
			"May 2020, one table with a column vc"
	default:
		return "simulation/data/Venus/cluster_throughput.csv of github.com/S-Lab-System-Group/Lucid, its rows before " +
			"2020-09-01, and compress it"
	}
}

// window is a part of a trace on a cluster.
type window struct {
	name string
	// set is the trace that a rule leaves out as a whole.
	set string
	// file is of a recorded trace; profile and load are of a synthetic one, which has its own history.
	file, profile string
	load          float64
	seed          uint64
	from          string // of a recorded trace
	days, nodes   int
	longest       time.Duration // jobs that run longer are services; 0 keeps all
	all           bool          // of the comparison of all methods
	fortnight     bool          // as long as the paper's: no part of the core set
}

// warmup is how long jobs run before those that count.
const warmup = 2 * day

// history of a synthetic trace before its window.
const historyDays = 21

// windows are those that methods are compared on. The first ones have all methods.
var windows = []window{
	{name: "philly", set: "Philly", file: phillyFile, from: "2017-10-10", days: 1, nodes: 40, all: true},
	{name: "helios-like", set: "Helios-like", profile: "helios", load: 1.1, seed: 1, days: 1, nodes: 24, all: true},
	{name: "pai", set: "PAI 2023", file: paiFile, from: "1970-05-14", days: 2, nodes: 1, longest: 2 * day, all: true},
	{name: "philly-1005", set: "Philly", file: phillyFile, from: "2017-10-05", days: 3, nodes: 40},
	{name: "philly-1013", set: "Philly", file: phillyFile, from: "2017-10-13", days: 3, nodes: 56},
	{name: "philly-1020", set: "Philly", file: phillyFile, from: "2017-10-20", days: 3, nodes: 56},
	{name: "philly-1027", set: "Philly", file: phillyFile, from: "2017-10-27", days: 3, nodes: 56},
	{name: "philly-1027-80", set: "Philly", file: phillyFile, from: "2017-10-27", days: 3, nodes: 80},
	{name: "helios-like-0.8", set: "Helios-like", profile: "helios", load: .8, seed: 2, days: 3, nodes: 24},
	{name: "helios-like-1.3", set: "Helios-like", profile: "helios", load: 1.3, seed: 3, days: 3, nodes: 24},
	{name: "acme-like-0.8", set: "Acme-like", profile: "acme", load: .8, seed: 1, days: 3, nodes: 32},
	{name: "acme-like-1.1", set: "Acme-like", profile: "acme", load: 1.1, seed: 2, days: 3, nodes: 32},
	{name: "acme-like", set: "Acme-like", profile: "acme", load: 1.1, seed: 3, days: 1, nodes: 12},
	{name: "philly-like-0.9", set: "Philly-like", profile: "philly", load: .9, seed: 1, days: 3, nodes: 24},
	{name: "philly-like-1.2", set: "Philly-like", profile: "philly", load: 1.2, seed: 2, days: 3, nodes: 24},
	{name: "philly-like", set: "Philly-like", profile: "philly", load: 1.1, seed: 3, days: 1, nodes: 16},
	{name: "pai-like-0.9", set: "PAI-like", profile: "pai", load: .9, seed: 1, days: 3, nodes: 8},
	{name: "pai-like-1.1", set: "PAI-like", profile: "pai", load: 1.1, seed: 2, days: 3, nodes: 8},
	{name: "pai-like", set: "PAI-like", profile: "pai", load: 1.1, seed: 3, days: 1, nodes: 4},
	{name: "pai-0430", set: "PAI 2023", file: paiFile, from: "1970-04-30", days: 5, nodes: 1, longest: 2 * day},
	{name: "philly-fortnight", set: "Philly", file: phillyFile, from: "2017-09-22", days: 14, nodes: 70, all: true,
		fortnight: true},
	{name: "helios-like-fortnight", set: "Helios-like", profile: "helios", load: 1.1, seed: 4, days: 14, nodes: 70,
		all: true, fortnight: true},
	{name: "pai-0507", set: "PAI 2023", file: paiFile, from: "1970-05-07", days: 5, nodes: 1, longest: 2 * day},
}

// schedulerNames are the paper's.
var schedulerNames = []string{"tiresias", "themis", "lucid"}

// Data has the traces of windows, each opened once.
type Data struct {
	// Folder has recorded traces, Peers the repositories of other simulators.
	Folder, Peers string
	mu            sync.Mutex
	opened        map[string]*workload.Workload
}

// path of a file of a trace, "" if it is not at hand.
func (d *Data) path(file string) string {
	path := filepath.Join(d.Folder, file)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// has reports whether the repository of another simulator is at hand, or autosched beside this program.
func (d *Data) has(peer string) bool {
	if peer == serviceProgram {
		_, err := os.Stat(serviceProgramPath())
		return err == nil
	}
	_, err := os.Stat(filepath.Join(d.Peers, peer))
	return d.Peers != "" && err == nil
}

func (d *Data) open(ctx context.Context, file string) (*workload.Workload, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.opened[file]; w != nil {
		return w, nil
	}
	w, _, err := trace.Open(ctx, filepath.Join(d.Folder, file), trace.Options{})
	if err != nil {
		return nil, err
	}
	if d.opened == nil {
		d.opened = map[string]*workload.Workload{}
	}
	d.opened[file] = w
	return w, nil
}

// load returns a window with its trace for a scheduler, whose name may have + and an objective after it.
func (d *Data) load(ctx context.Context, x *window, scheduler string) (o replay.Options, err error) {
	name, goal, _ := strings.Cut(scheduler, "+")
	if o.Scheduler, err = schedulers.Find(name); err != nil {
		return o, err
	}
	if goal != "" {
		o.Goal = round.Minimise(goal)
	}
	o.Cluster, o.Warmup = workload.Uniform(x.nodes, 8), warmup
	if x.profile != "" {
		o.Trace, err = synth.Generate(ctx, synth.Options{Profile: x.profile, Days: historyDays + x.days, Load: x.load,
			Cluster: o.Cluster, MaxDuration: 4 * day, Seed: x.seed})
		o.From, o.To = historyDays*day, (historyDays+time.Duration(x.days))*day
		return o, err
	}
	if o.Trace, err = d.open(ctx, x.file); err != nil {
		return o, err
	}
	if x.longest > 0 {
		jobs := slices.DeleteFunc(slices.Clone(o.Trace.Jobs()),
			func(j workload.Job) bool { return j.Duration > x.longest })
		if o.Trace, err = workload.New(o.Trace.Name(), o.Trace.Zero(), jobs); err != nil {
			return o, err
		}
	}
	if o.Trace, err = cli.WithoutWider(io.Discard, o.Trace, o.Cluster); err != nil {
		return o, err
	}
	if o.From, err = trace.ParseInstant(o.Trace, x.from); err != nil {
		return o, fmt.Errorf("window %s: %w", x.name, err)
	}
	o.To = o.From + time.Duration(x.days)*day
	return o, nil
}
