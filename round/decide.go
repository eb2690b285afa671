package round

import (
	"context"
	"encoding/json"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/schedulers"
)

// DecideOnline is the DecideFunc of the product: Decide without its evidence.
func DecideOnline(ctx context.Context, in Input) (Decision, error) {
	r, err := Decide(ctx, in)
	return r.Decision, err
}

// Decide makes a round's decision with its evidence: it forecasts futures from
// the ledger and searches on them. The online service and the method autosched of
// an evaluation both come here.
func Decide(ctx context.Context, in Input) (Result, error) {
	s, err := schedulers.Find(in.Scheduler)
	if err != nil {
		return Result{}, err
	}
	if err := in.State.Cluster.Validate(); err != nil {
		return Result{Decision: Decision{Config: in.Incumbent, Ratio: 1, Reason: "no node is up"}}, nil
	}
	seed := Seed(in.Seed, in.Round)
	count := in.Futures
	if !in.Always {
		count *= 2 // the second half is for those that were best on the first
	}
	scenarios, err := Futures(ctx, in.Ledger, &in.State, in.Zero, in.Horizon, count, seed, in.Simulator, in.Engine)
	if err != nil {
		return Result{}, err
	}
	r := Round{
		Scheduler: s, Space: in.Space, Objective: in.Objective, Cluster: in.State.Cluster, Scenarios: scenarios[:in.Futures], Confirm: scenarios[in.Futures:], Options: in.Simulator,
		Incumbent: in.Incumbent, Refused: in.Refused, Budget: in.Budget, Workers: in.Workers, MinRatio: in.MinRatio, Always: in.Always, Seed: seed,
	}
	before, x := recall(in.Experience, in.Space), meet(in.Ledger, &in.State, in.Zero)
	what, why := before.search(in.Search, &x, in.Incumbent.Equal(in.Space.Default()))
	presets := presetsIn(in.Space, s)
	r.Portfolio = what == SearchPortfolio
	most := pastInFull
	if r.Portfolio {
		most = portfolioSize - 2 - min(presetsKept, len(presets))
	}
	r.Past = before.candidates(&x, in.Space, presets, in.Incumbent, most)
	out, err := r.Run(ctx)
	if out.Experience = in.Experience; err == nil && len(out.Trials) > 0 {
		if note := InertNote(out.Inert); note != "" {
			why += "; " + note
		}
		if out.NoDeadline {
			why += "; " + NoDeadlineNote
		}
		out.Search, out.Why = what, why
		out.Experience, err = json.Marshal(before.after(in.Round, &x, s, &out))
	}
	if _, wide := fitting(&in.State); wide > 0 && err == nil {
		out.Details["jobs_wider_than_cluster"] = float64(wide)
	}
	return out, err
}

// Seed is the seed of a round's futures and search. Neighbouring seeds and
// rounds share nothing.
func Seed(seed uint64, round int) uint64 {
	return rng.Stream("round", seed, uint64(round)).Uint64()
}
