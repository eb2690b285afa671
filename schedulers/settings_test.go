package schedulers_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// together are settings that others need.
var together = map[string][]string{"chronus": {"slo_share=0.5"},
	"kueue": {"preemption.reclaimWithinCohort=LowerPriority"},
	"lucid": {"share_limit=4", "share_when=always", "profiler_nodes=0"},
	"slurm": {"SchedulerParameters.bf_min_age_reserve=21600", "SchedulerParameters.bf_interval=300",
		"PriorityWeightTRES.gpu=1000000"},
	"volcano": {"sla-waiting-time=600"}}

// TestEverySettingMatters: every parameter of a scheduler has an effect. On
// some workload, from the default or a preset, some value of it changes the
// outcome.
func TestEverySettingMatters(t *testing.T) {
	if testing.Short() {
		t.Skip("runs every setting of every scheduler")
	}
	for _, s := range schedulers.All {
		bases := []space.Config{s.Space.Default()}
		if set := together[s.Name]; set != nil {
			c, err := s.Space.Parse(bases[0], set)
			if err != nil {
				t.Fatal(err)
			}
			bases = append(bases, c)
		}
		for _, p := range s.Presets {
			bases = append(bases, p.Config)
		}
		params := s.Space.Params()
		for i := range params {
			if p := &params[i]; p.Kind == space.KindDuration && p.Min == p.Max { // held, unless a registration opens it
				continue
			}
			if !matters(t, s, params[i].ID, bases) {
				t.Errorf("%s: %s changes nothing", s.Name, params[i].ID)
			}
		}
	}
}

func matters(t *testing.T, s *schedulers.Scheduler, id string, bases []space.Config) bool {
	for _, base := range bases {
		for _, load := range []int{3, 1, 30} {
			plain := settled(t, s, base, load)
			for _, at := range []float64{0, .3, .5, .7, .9, 1} {
				x := s.Space.Encode(base)
				for d := range x {
					if s.Space.Dim(d).Param == id {
						x[d] = at
					}
				}
				if c := s.Space.Decode(x); !c.Equal(base) && !bytes.Equal(plain, settled(t, s, c, load)) {
					return true
				}
			}
		}
	}
	return false
}

// settled simulates 120 jobs of three tenants and all models, the more crowded the
// higher the load.
func settled(t *testing.T, s *schedulers.Scheduler, config space.Config, load int) []byte {
	t.Helper()
	models := *defaultModels
	models.Loads = slices.Clone(models.Loads)
	for i := range models.Loads {
		models.Loads[i].Mem = float64(i * 900) // the built-in ones do not know
	}
	var jobs []workload.Job
	for i := range 120 {
		j := workload.Job{ID: string(rune('A'+i/26)) + string(rune('a'+i%26)), Key: string(rune('a' + i%11)),
			Submit:   time.Duration(i*900/load) * time.Second,
			Duration: time.Duration(30+i*i*37%9000) * time.Second,
			GPUs:     workload.GPUs([]int{1, 1, 2, 4, 1, 8, 3, 1, 12}[i%9]), Tenant: string(rune('w' + i%3)),
			Model: models.Classes[i%len(models.Classes)].Name}
		if i%3 == 0 {
			j.Model = models.Loads[i%len(models.Loads)].Name
		}
		if i%5 == 0 {
			j.Deadline = j.Submit + 3*j.Duration
			j.Requested = workload.Request{QOS: "high", Priority: 10}.Shared()
		}
		jobs = append(jobs, j)
	}
	w, err := workload.New("settings", time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	c := trial{scheduler: s, config: config, w: w,
		cluster: workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 4, GPUsPerNode: 4}},
			VCs: []workload.VC{{Tenant: "w", GPUs: 4, Weight: 1}, {Tenant: "x", GPUs: 2, Weight: 8},
				{Tenant: "y", GPUs: 8, Weight: 1}},
			Site: workload.Site{QOS: []workload.QOS{{Name: "high", Priority: 1}}}}}
	c.opts = simulator.Options{Models: &models, Quota: simulator.QuotaBorrow,
		Estimate: func(j *workload.Job) time.Duration {
			return j.Duration + time.Hour
		}}
	r, err := c.run(new(simulator.Sim))
	if err != nil {
		t.Fatalf("%s: %v: %v", s.Name, config, err)
	}
	return r.bytes()
}
