package jet

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/workload"
)

// BenchmarkAppend stores batches of 100 events by 16 callers, in a directory, by one node, and by one of three nodes on
// one machine: events/s and the latency of a batch.
func BenchmarkAppend(b *testing.B) {
	for name, open := range map[string]func(b *testing.B) controller.Store{
		"directory": func(b *testing.B) controller.Store {
			s, err := store.Open(b.TempDir(), store.Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = s.Close() })
			return s
		},
		"one": func(b *testing.B) controller.Store {
			return leader(b, &Config{Node: "a", Dir: b.TempDir(), Embedded: &Embedded{}})
		},
		"three": func(b *testing.B) controller.Store { return leader(b, configs(b)...) },
	} {
		b.Run(name, func(b *testing.B) {
			s := open(b)
			var next, mu sync.Mutex
			left, took := b.N, []time.Duration{}
			begin := time.Now()
			var all sync.WaitGroup
			for caller := range 16 {
				all.Go(func() {
					for {
						next.Lock()
						left--
						n := left
						next.Unlock()
						if n < 0 {
							return
						}
						var events []workload.Event
						for i := range 100 {
							events = append(events, submitted(strconv.Itoa(n)+"-"+strconv.Itoa(i)))
						}
						at := time.Now()
						if err := s.AppendEvents(context.Background(), fmt.Sprint("s", caller), events); err != nil {
							b.Error(err)
							return
						}
						mu.Lock()
						took = append(took, time.Since(at))
						mu.Unlock()
					}
				})
			}
			all.Wait()
			slices.Sort(took)
			b.ReportMetric(float64(100*b.N)/time.Since(begin).Seconds(), "events/s")
			for _, q := range []int{50, 99} {
				b.ReportMetric(float64(took[(len(took)-1)*q/100].Microseconds())/1000, fmt.Sprintf("p%d-ms", q))
			}
		})
	}
}

// leader starts nodes that follow, the first of which leads.
func leader(b *testing.B, nodes ...*Config) *Store {
	engines := make([]*Engine, len(nodes))
	var all sync.WaitGroup
	for i, c := range nodes {
		all.Go(func() { engines[i] = again(b, c) })
	}
	if all.Wait(); b.Failed() {
		b.FailNow()
	}
	var first *Replica
	for i, e := range engines {
		r, err := Open(b.Context(), e, Options{Dir: nodes[i].Replica()})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = r.Close() })
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		b.Cleanup(func() { cancel(); <-ended })
		if i == 0 {
			first = r
		}
	}
	s, err := first.Lead(b.Context(), 1)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}
