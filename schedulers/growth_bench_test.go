package schedulers_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/synth"
)

// growthSizes are numbers of jobs, submitted in forty days where the cluster grows
// with them.
var growthSizes = []struct {
	name string
	jobs int
}{{"10k", 10_000}, {"100k", 100_000}, {"1M", 1_000_000}}

// The fewest of the long ones come in fewer days, as jobs of more than
// ten years are not drawn.
const growthDays, longDays = 40, 36

// growing are the configurations whose cost is followed: FIFO, Tiresias with each
// number of queues, and with all jobs of a queue in order of submission.
func growing(b *testing.B) []contender {
	ladder := func(queues int, order string) contender {
		set := []string{fmt.Sprintf("queues=%d", queues), "order=" + order}
		if queues > 1 {
			var limits []string
			for i := range queues - 1 {
				limits = append(limits, fmt.Sprint(7200*math.Pow(6, float64(i))))
			}
			set = append(set, "queue_thresholds="+strings.Join(limits, ","))
		}
		return configured(b, "tiresias", fmt.Sprintf("tiresias-%d-%s", queues, order), set...)
	}
	out := []contender{configured(b, "fifo", "fifo")}
	for queues := 1; queues <= 6; queues++ {
		out = append(out, ladder(queues, "running_first"))
	}
	for _, queues := range []int{1, 2, 5} {
		out = append(out, ladder(queues, "submit"))
	}
	return out
}

func configured(b *testing.B, name, label string, set ...string) contender {
	b.Helper()
	s, err := schedulers.Find(name)
	if err != nil {
		b.Fatal(err)
	}
	config, err := s.Space.Parse(s.Space.Default(), set)
	if err != nil {
		b.Fatal(err)
	}
	return contender{label, s, config}
}

// BenchmarkGrowth replays synthetic jobs on a cluster with room to spare (a
// hundred jobs per node: 10,000 nodes for a million), on one that they fill (a
// load of 1: about 2,000 nodes), and, submitted in as many more days, on the one
// that the fewest fill (long), and reports how the time per job grows with their
// number. It is CPU time where the system has it.
func BenchmarkGrowth(b *testing.B) {
	var rows []growthRow
	at := map[string]int{}
	note := func(name string, size int, ns float64) {
		i, ok := at[name]
		if !ok {
			i = len(rows)
			at[name] = i
			rows = append(rows, growthRow{name, make([]float64, len(growthSizes))})
		}
		rows[i].ns[size] = ns
	}
	for k, size := range growthSizes {
		for _, room := range []string{"roomy", "full", "long"} {
			var w *workload.Workload
			var c workload.Cluster
			for _, x := range growing(b) {
				name := room + "/" + x.name
				b.Run(size.name+"/"+name, func(b *testing.B) {
					switch {
					case w != nil:
					case room == "long":
						fewest := growthSizes[0].jobs
						w, c = filling(b, size.jobs, fewest, longDays*size.jobs/fewest)
					default:
						w, c = filling(b, size.jobs, size.jobs, growthDays)
					}
					if room == "roomy" {
						c = workload.Uniform(size.jobs/100, c.GPUsPerNode())
					}
					note(name, k, benchRun(b, x, c, w))
				})
			}
		}
	}
	if len(rows) > 0 {
		fmt.Println(growthTable(rows))
	}
}

// growthRow is the time per job of a configuration in ns, by size; 0 if it was
// not measured.
type growthRow struct {
	name string
	ns   []float64
}

func growthTable(rows []growthRow) string {
	var t strings.Builder
	fmt.Fprintf(&t, "time per job in ns, and what it grows by (log n: by %.2f and %.2f)\n%-32s",
		logRatio(1), logRatio(2), "")
	for _, s := range growthSizes {
		fmt.Fprintf(&t, "%8s", s.name)
	}
	for _, r := range rows {
		fmt.Fprintf(&t, "\n%-32s", r.name)
		for _, ns := range r.ns {
			fmt.Fprintf(&t, "%8.0f", ns)
		}
		for i := 1; i < len(r.ns); i++ {
			if r.ns[0] > 0 && r.ns[i] > 0 {
				fmt.Fprintf(&t, "  x %.2f", r.ns[i]/r.ns[0])
			}
		}
	}
	return t.String()
}

func logRatio(i int) float64 {
	return math.Log(float64(growthSizes[i].jobs)) / math.Log(float64(growthSizes[0].jobs))
}

// filling draws jobs of some days, of the users of a cluster of forty
// days, and the cluster on which they are a load of 1.
func filling(b *testing.B, jobs, users, days int) (*workload.Workload, workload.Cluster) {
	b.Helper()
	w, err := synth.Generate(b.Context(), synth.Options{Days: days, Jobs: jobs, Seed: 1,
		Cluster: workload.Uniform(users/500, 8)})
	if err != nil {
		b.Fatal(err)
	}
	work := 0.0
	for i := range w.Jobs() {
		j := &w.Jobs()[i]
		work += j.Duration.Hours() * float64(j.GPUs.Whole())
	}
	return w, workload.Uniform(max(users/500, int(math.Round(work/(24*float64(days))/8))), 8)
}
