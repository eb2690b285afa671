package schedulers_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/schedulers/internal/peers"
	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/schedulers/lucid"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// lucidEvery is how Lucid's simulator runs policies that decide on a grid.
func lucidEvery(round time.Duration) simulator.Options {
	models := simulator.DefaultModels()
	models.Restart = func(gpus int, _ int64) time.Duration {
		if gpus <= 8 {
			return 40 * time.Second
		}
		return 60 * time.Second
	}
	return simulator.Options{Placement: simulator.ConsolidateWhole,
		Peer: simulator.Peer{Clock: time.Second, RestartAsWork: true, QuotaOnly: true}, Round: round, Models: models}
}

func lucidTiresias(_ space.Config, g goldenName) simulator.Policy {
	threshold, _ := strconv.Atoi(g.config["thr"])
	return peers.LucidTiresias(time.Duration(threshold) * time.Second)
}

// runLucid runs Lucid's own policy as its authors' simulator does: first the
// profiler alone, on nodes of its own, where jobs that are short enough end,
// then all others, whole, on the rest of the nodes. The loads are Lucid's own
// measurements.
func runLucid(t *testing.T, g goldenName, w *workload.Workload) map[string]goldenRow {
	t.Helper()
	s, err := schedulers.Find("lucid")
	if err != nil {
		t.Fatal(err)
	}
	limit := 2
	if g.flags["nopack"] {
		limit = lucid.Off
	}
	set := []string{"profiler_nodes=0", "priority=gpu_time", fmt.Sprintf("share_limit=%d", limit), "share_when=always",
		"share_factor=2", "memory_limit=24576", "share_load=0"}
	opts := lucidEvery(0)
	opts.Peer.GuestStaysSlow = true
	opts.Estimate = func(j *workload.Job) time.Duration { return j.Duration }
	var loadOf map[string]string
	opts.Models.Loads, opts.Models.Pair, loadOf = lucidLoads(t, g.workload)

	cluster := goldenClusters[g.workload]
	rows := map[string]goldenRow{}
	profiled := map[string]time.Duration{} // and how long they waited for it
	if g.flags["prof"] {
		nodes, _ := strconv.Atoi(g.config["s"])
		limit, _ := strconv.Atoi(g.config["t"])
		factor, _ := strconv.Atoi(g.config["f"])
		var eligible []workload.Job
		short := map[string]bool{}
		for _, j := range w.Jobs() {
			if j.GPUs.Whole() <= nodes*factor {
				short[j.ID] = j.Duration <= time.Duration(limit)*time.Second
				j.Duration = min(j.Duration, time.Duration(limit)*time.Second)
				eligible = append(eligible, j)
			}
		}
		// The profiler's rule: narrow jobs first, in blocking order.
		aside := &lanes.Line{Key: func(s *simulator.View, j simulator.ID) int64 { return int64(s.JobGPUs(j)) }}
		for name, r := range runRows(t, workload.Uniform(nodes, cluster.GPUsPerNode()), part(t, w, eligible), aside,
			simulator.Options{Placement: simulator.ConsolidateWhole}) {
			profiled[name] = r.queue
			if short[name] {
				rows[name] = r
			}
		}
		cluster = workload.Uniform(cluster.Nodes()-nodes, cluster.GPUsPerNode())
	}
	var rest []workload.Job
	for _, j := range w.Jobs() {
		if _, ended := rows[j.ID]; !ended {
			j.Model = loadOf[j.ID]
			rest = append(rest, j)
		}
	}
	config, err := s.Space.Parse(s.Space.Default(), set)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range runRows(t, cluster, part(t, w, rest),
		lucid.NewOriginal(config, lucid.Quirks{BlockApart: true, PlanOrder: true}), opts) {
		r.queue += profiled[name]
		rows[name] = r
	}
	return rows
}

func part(t *testing.T, w *workload.Workload, jobs []workload.Job) *workload.Workload {
	t.Helper()
	p, err := workload.New(w.Name(), w.Zero(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func runRows(t *testing.T, c workload.Cluster, w *workload.Workload, p simulator.Policy,
	o simulator.Options) map[string]goldenRow {
	t.Helper()
	var sim simulator.Sim
	if err := sim.Start(c, w, p, o); err != nil {
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

// lucidLoads reads measurements of Lucid's authors: the loads of a workload's jobs
// by job, and the speeds of pairs. Pairs with a member of four models were not
// measured and count as undisturbed.
func lucidLoads(t *testing.T, name string) (loads []simulator.Load, pair func(a, b int) (float64, float64),
	loadOf map[string]string) {
	t.Helper()
	index := map[string]int{}
	loadOf = map[string]string{}
	var models []string
	file := filepath.Join(testshared.Path(t, "golden", "simulator"), "workloads", name+".lucid_models.csv")
	if _, err := os.Stat(file); err != nil {
		file += ".gz"
	}
	readTable(t, file, func(r row) {
		l := simulator.Load{Name: strings.Join([]string{r.text("model"), r.text("dataset"), r.text("batchsize"),
			r.text("amp")}, "/"),
			Util: r.number("gpu_util") / 100, Mem: r.number("gmem"), Score: r.integer("label"), Weight: 1}
		loadOf[r.text("job_id")] = l.Name
		i, ok := index[l.Name]
		if !ok {
			index[l.Name] = len(loads)
			loads = append(loads, l)
			models = append(models, r.text("model"))
		} else if loads[i] != l {
			t.Fatalf("%s: %+v differs from %+v", r.at, l, loads[i])
		}
	})
	type key struct{ a, b int }
	type both struct{ own, other float64 }
	speeds := map[key]both{} // of two equal loads, the first is who comes second
	readTable(t, filepath.Join(testshared.Path(t, "traces", "colocation"), "pairs.csv"), func(r row) {
		side := func(n string) int {
			i, ok := index[strings.Join([]string{r.text("model" + n), r.text("dataset" + n), r.text("batchsize" + n),
				r.text("amp" + n)}, "/")]
			if !ok {
				return -1
			}
			return i
		}
		a, b := side("1"), side("2")
		x, y := r.number("speed1"), r.number("speed2")
		speeds[key{b, a}] = both{y, x}
		speeds[key{a, b}] = both{x, y}
	})
	undisturbed := func(i int) bool {
		return slices.Contains([]string{"NeuMF", "ResNet50", "BERT", "Transformer"}, models[i])
	}
	return loads, func(a, b int) (float64, float64) {
		if undisturbed(a) || undisturbed(b) {
			return 1, 1
		}
		v := speeds[key{a, b}]
		return v.own, v.other
	}, loadOf
}

// lucidSlack is a second where the original's results depend on how it rounds
// work left: where jobs share on a busy cluster, or for so long that
// idle seconds were skipped.
func lucidSlack(g goldenName) time.Duration {
	if g.workload == "w200" || g.flags["nopack"] {
		return 0
	}
	return time.Second
}
