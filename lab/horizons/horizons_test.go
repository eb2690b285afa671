package horizons

import (
	"context"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/lab/internal/window"
	"github.com/autosched/autosched/workload"
)

// TestRankHorizons: on the true future until the end of the window, the instant that the
// window begins with orders configurations as holding them does, and a short future less well.
func TestRankHorizons(t *testing.T) {
	testshared.Full(t)
	o := window.Sample(t)
	o.Cluster = workload.Uniform(14, 8)
	h := Options{Horizons: []time.Duration{time.Minute, o.To - o.From}, Configs: 8, Hours: 1}
	done := 0
	h.Progress = func(n, of int) { done = n*10 + of }
	r, err := Rank(context.Background(), o, h)
	if err != nil {
		t.Fatal(err)
	}
	if done != 22 || r.Configurations < 12 || r.Instants != 1 || r.BestJCT > r.DefaultJCT || r.BestJCT <= 0 {
		t.Errorf("%d, %+v", done, r)
	}
	short, whole := r.Horizons[0], r.Horizons[1]
	if whole.OnTruth < .7 || whole.OnTruth <= short.OnTruth || whole.RegretOnTruth > short.RegretOnTruth {
		t.Errorf("ranks on the truth are %.2f until the end of the window, %.2f for a minute; regrets %.3f, %.3f",
			whole.OnTruth, short.OnTruth, whole.RegretOnTruth, short.RegretOnTruth)
	}
	for _, x := range r.Horizons {
		if math.Abs(x.Rank) > 1 || math.Abs(x.Once-x.Rank) > 1e-12 || x.Regret < 0 || x.Seconds <= 0 {
			t.Errorf("%+v", x)
		}
	}
	again, err := Rank(context.Background(), o, h)
	if err != nil {
		t.Fatal(err)
	}
	for k := range r.Horizons {
		r.Horizons[k].Seconds, again.Horizons[k].Seconds = 0, 0
	}
	if !reflect.DeepEqual(r, again) {
		t.Errorf("%+v is not repeated: %+v", r, again)
	}
}

// TestScoresAgainst: the best on average is compared, not that of an instant.
func TestScoresAgainst(t *testing.T) {
	s := scores{relative: [][]float64{{1, .5, .9}, {1, 1.9, .8}}}
	if rank, regret := s.against([]float64{30, 40, 20}); rank != 1 || regret != 0 {
		t.Errorf("rank %v, regret %v", rank, regret)
	}
	if rank, regret := s.against([]float64{30, 20, 40}); rank != -1 || regret != 1 {
		t.Errorf("rank %v, regret %v", rank, regret)
	}
}
