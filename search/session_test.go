package search

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/space"
)

// A session that reports each batch in order before it asks again measures the same as Tune.
func TestSessionIsTune(t *testing.T) {
	for _, name := range samplerNames() {
		for _, filtered := range []bool{false, true} {
			o := Options{Space: ladder(t), Evaluate: ladderCost, Method: name, Budget: 24, Seed: 3, Workers: 1}
			if filtered {
				o.Reject = func(h []Trial, c space.Config) string {
					if c.Get("queues").Float() == 2 {
						return fmt.Sprintf("two queues are not worth it after %d trials", len(h))
					}
					return ""
				}
			}
			want, err := Tune(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			n, err := NewSession(o, true)
			if err != nil {
				t.Fatal(err)
			}
			rejections := 0
			for {
				batch, rejected, stopped, err := n.Ask(o.Budget - len(n.Trials()))
				if err != nil {
					t.Fatal(err)
				}
				rejections += len(rejected)
				if stopped != "" {
					if stopped != want.Stopped {
						t.Errorf("%s stopped: %s, Tune: %s", name, stopped, want.Stopped)
					}
					break
				}
				for _, p := range batch {
					m, failed := ladderCost(t.Context(), p.Config)
					n.Tell(p, m, failed)
				}
			}
			got := n.Trials()
			same := slices.EqualFunc(got, want.Trials, func(a, b Trial) bool {
				return a.Config.Equal(b.Config) && a.Reward == b.Reward && a.Err == b.Err && a.Origin == b.Origin
			})
			if !same || n.Best() != want.Best || rejections != len(want.Rejected) {
				t.Errorf("%s, filtered %v: %d trials, best %d, %d rejected; Tune: %d, %d, %d", name, filtered, len(got),
					n.Best(), rejections, len(want.Trials), want.Best, len(want.Rejected))
			}
		}
	}
}

// Sixteen workers ask while others measure, and the session is continued from the reported and the
// pending trials again and again: all proposals are new and valid, the budget is used, and the winner is better
// than the start.
func TestSessionInParallel(t *testing.T) {
	for _, name := range samplerNames() {
		o := Options{Space: ladder(t), Method: name, Budget: 60, Seed: 5}
		r := rng.Stream("workers", 1)
		n, err := NewSession(o, true)
		if err != nil {
			t.Fatal(err)
		}
		type ended struct {
			Proposal
			Measurement
			error
		}
		var done []ended
		var open []Proposal
		known := map[string]bool{}
		for stopped := ""; stopped == "" || len(open) > 0; {
			if stopped == "" && len(open) < 16 {
				var batch []Proposal
				batch, _, stopped, err = n.Ask(o.Budget - len(done) - len(open))
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range batch {
					if err := o.Space.Check(p.Config); err != nil || known[p.Config.Hash()] {
						t.Fatalf("%s proposes %s, known %v: %v", name, p.Config, known[p.Config.Hash()], err)
					}
					known[p.Config.Hash()] = true
				}
				open = append(open, batch...)
				if len(batch) > 0 {
					continue
				}
			}
			if len(open) == 0 {
				if stopped == "" {
					t.Fatalf("%s has nothing to propose, and is not over", name)
				}
				break
			}
			k := r.IntN(len(open))
			p := open[k]
			open = slices.Delete(open, k, k+1)
			m, failed := ladderCost(context.Background(), p.Config)
			done = append(done, ended{p, m, failed})
			n.Tell(p, m, failed)
			if len(done)%20 == 0 {
				step, state := n.Progress()
				again := o
				again.State = state
				if n, err = NewSession(again, false); err != nil {
					t.Fatal(err)
				}
				n.Continue(step)
				for _, d := range done {
					n.Tell(d.Proposal, d.Measurement, d.error)
				}
				for _, p := range open {
					n.Expect(p)
				}
			}
		}
		least := o.Budget
		if name == "bluefin" { // a pair may be known, or not fit
			least = o.Budget / 2
		}
		if len(done) > o.Budget || len(done) < least {
			t.Errorf("%s: %d trials of %d", name, len(done), o.Budget)
		}
		trials := n.Trials()
		if best := n.Best(); best < 0 || trials[best].Reward <= 1 {
			t.Errorf("%s: the best of %d trials is %d", name, len(trials), best)
		}
	}
}
