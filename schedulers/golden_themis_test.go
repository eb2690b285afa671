package schedulers_test

import (
	"strconv"
	"time"

	"github.com/autosched/autosched/schedulers/internal/peers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// titanThemis knows true durations and follows the peer. Its names give
// the share of jobs that get offers, which may be less than the parameter can say.
func titanThemis(c space.Config, g goldenName) simulator.Policy {
	keep, _ := strconv.ParseFloat(g.config["f"], 64)
	return peers.TitanThemis(c.Get("lease_term").Duration(), keep)
}

// titanShortest chooses by counts.
func titanShortest(space.Config, goldenName) simulator.Policy { return peers.TitanShortest() }

// titanRounds are TitanSched's options where every round counts.
var titanRounds = simulator.Options{Peer: simulator.Peer{RestartOutsideJCT: true, RestartOutsideService: true,
	QuotaOnly: true}, EventBudget: 1 << 40,
	Estimate: func(j *workload.Job) time.Duration { return j.Duration }}
