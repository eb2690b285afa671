package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// change is a configuration that came into force during a run.
type change struct {
	At   float64 `json:"at_s"`
	Conf string  `json:"conf"` // the include file
}

const members = 12

// promise is the mean wait in seconds that the simulator gives recorded submissions and run times under the
// settings of a run: the median of an ensemble over the unknown phases of slurmctld's cycles.
func promise(ctx context.Context, c workload.Cluster, jobs []recorded,
	settings func(conf string) (slurm.Settings, error), changes []change) (waits []float64, mean float64, err error) {
	return simulate(ctx, c, jobs, settings, changes, members)
}

// simulate is promise with a number of members.
func simulate(ctx context.Context, c workload.Cluster, jobs []recorded,
	settings func(conf string) (slurm.Settings, error), changes []change, members int) (waits []float64, mean float64,
	err error) {
	all := make([]slurm.Settings, len(changes))
	for i := range changes {
		if all[i], err = settings(changes[i].Conf); err != nil {
			return nil, 0, err
		}
	}
	var means []float64
	byMember := make([][]float64, members)
	for m := range members {
		r := rand.New(rand.NewPCG(uint64(m), 7))
		epilog := time.Duration(min(1, m%3)) * time.Second
		share := (float64(m) + r.Float64()) / float64(members)
		tick := time.Second * time.Duration(1+r.IntN(60))
		policy := func(i int) simulator.Policy {
			s := all[i]
			s.Phases = slurm.Phases{Backfill: time.Second * time.Duration(1+share*s.BFInterval.Seconds()),
				Full: s.SchedInterval, Tick: tick}
			return slurm.NewPolicy(s)
		}
		w, err := simulated(jobs)
		if err != nil {
			return nil, 0, err
		}
		var sim simulator.Sim
		if err := sim.Start(c, w, policy(0), simulator.Options{Epilog: epilog}); err != nil {
			return nil, 0, err
		}
		for i := 1; i < len(changes); i++ {
			if err := sim.RunUntil(ctx, time.Duration(changes[i].At*float64(time.Second))); err != nil {
				return nil, 0, err
			}
			sim.Reconfigure(policy(i))
		}
		if err := sim.Run(ctx); err != nil {
			return nil, 0, err
		}
		started := map[string]float64{}
		for _, o := range sim.Outcomes(nil) {
			started[sim.JobName(o.ID)] = o.Start.Truncate(time.Second).Seconds()
		}
		for i := range jobs {
			byMember[m] = append(byMember[m], started[fmt.Sprint(i)]-jobs[i].Submit)
		}
		means = append(means, stats.Mean(byMember[m]))
	}
	slices.Sort(means)
	waits = make([]float64, len(jobs))
	for i := range jobs {
		for m := range members {
			waits[i] += byMember[m][i] / float64(members)
		}
	}
	return waits, stats.Quantile(means, .5), nil
}

// simulated are recorded jobs as a workload, with the number of each as its id.
func simulated(jobs []recorded) (*workload.Workload, error) {
	out := make([]workload.Job, len(jobs))
	for i, j := range jobs {
		out[i] = workload.Job{ID: fmt.Sprint(i), User: j.User, Tenant: j.Account,
			Submit:   time.Duration(j.Submit * float64(time.Second)),
			Duration: time.Duration(max(1, j.End-j.Start) * float64(time.Second)),
			GPUs:     workload.GPUs(j.Nodes * j.GPUs),
			Requested: workload.Request{NodeCount: int32(j.Nodes), Partition: "train", Account: j.Account, QOS: j.QOS,
				TimeLimit: time.Duration(j.Minutes) * time.Minute, Requeue: workload.RequeueRestarts}.Shared()}
	}
	return workload.New("run", time.Time{}, out)
}
