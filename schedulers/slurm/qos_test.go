package slurm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// TestQOSPriorities: jobs start in the order of the priorities that the configuration has, and of the site's where it
// has none.
func TestQOSPriorities(t *testing.T) {
	cluster := workload.Uniform(1, 8)
	cluster.Site.QOS = []workload.QOS{{Name: "low", Priority: 1}, {Name: "mid", Priority: 5},
		{Name: "high", Priority: 10}}
	var jobs []workload.Job
	for i, qos := range []string{"low", "low", "mid", "high"} {
		asks := workload.Request{QOS: qos, TimeLimit: 2 * time.Minute}
		jobs = append(jobs, workload.Job{ID: fmt.Sprint(i), Submit: time.Duration(i) * time.Second,
			GPUs: workload.GPUs(8), Duration: time.Minute, Requested: asks.Shared()})
	}
	for _, c := range []struct {
		priorities map[string]int
		want       string // ids in the order of their starts
	}{
		{nil, "0321"},
		{map[string]int{"low": 20}, "0132"},
		{map[string]int{"mid": 11, "low": 0}, "0231"},
	} {
		params := Space()
		values := space.Values{weightQOS: space.Num(1000)}
		for name, priority := range c.priorities {
			p, is := SiteParam(QOSPriority(name))
			if !is {
				t.Fatal(name)
			}
			params = append(params, p)
			values[p.ID] = space.Int(priority)
		}
		s, err := space.New(params, Rules())
		if err != nil {
			t.Fatal(err)
		}
		config, _ := s.Project(values)
		w, err := workload.New("t", time.Time{}, jobs)
		if err != nil {
			t.Fatal(err)
		}
		var sim simulator.Sim
		if err := sim.Start(cluster, w, New(config), simulator.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := sim.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		out := sim.Outcomes(nil)
		ids := []int{0, 1, 2, 3}
		slices.SortFunc(ids, func(a, b int) int { return cmp.Compare(out[a].Start, out[b].Start) })
		got := strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ""), "[]")
		if got != c.want {
			t.Errorf("%v: jobs start as %s, want %s", c.priorities, got, c.want)
		}
	}
}

func TestQOSOf(t *testing.T) {
	for id, want := range map[string]string{"QOS.high.Priority": "high", "QOS.a-b_1.Priority": "a-b_1", "QOS..Priority": "",
		"QOS.a b.Priority": "", "QOS.a.b.Priority": "", "QOS.high": "", "PriorityWeightQOS": ""} {
		if got, is := QOSOf(id); is != (want != "") || is && (got != want || QOSPriority(got) != id) {
			t.Errorf("%s is %q, %v", id, got, is)
		}
	}
}
