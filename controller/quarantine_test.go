package controller_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/storetest"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/workload"
)

// lockedBuffer may be written and read at once.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func lose(c *rollout.Configuration) *rollout.Configuration {
	return &rollout.Configuration{Scheduler: c.Scheduler, Revision: c.Revision, State: rollout.Lost,
		Reason: "its CRC32C is wrong"}
}

// One scheduler's damaged record stops only this one, which goes on serving the last good
// configuration.
func TestFaultySchedulerIsQuarantined(t *testing.T) {
	for _, tc := range []struct {
		name     string
		alter    func(*controller.Saved)
		revision int64 // served; 0 if nothing can be
		why      string
	}{
		{"objective is not accepted", func(s *controller.Saved) { s.Scheduler.Objective = "gone" }, 2, "gone"},
		{"record", func(s *controller.Saved) {
			*s = controller.Saved{Scheduler: controller.Scheduler{Registration: controller.Registration{ID: "bad"}},
				Fault: errors.New("its CRC32C is wrong")}
		}, 0, "CRC32C"},
		{"record, but for the revisions", func(s *controller.Saved) { s.Fault = errors.New("is refused") }, 2,
			"refused"},
		{"revision on offer", func(s *controller.Saved) { s.Configurations[1] = lose(s.Configurations[1]) }, 1,
			"CRC32C"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx := context.Background()
			h := start(t, adopt(func(round.Input) int { return 2 }))
			for _, id := range []string{"bad", "good"} {
				h.register(id, controller.Auto)
				h.submit(id, time.Minute)
				h.submit(id, time.Hour+1)
				h.rounds(id, 1)
			}
			h.service.Close()
			var log lockedBuffer
			var err error
			h.service, err = controller.NewService(controller.Options{Decide: h.decide,
				Log:   slog.New(slog.NewTextHandler(&log, nil)),
				Store: &storetest.Faulty{Store: h.repo, Alter: func(saved []controller.Saved) { tc.alter(&saved[0]) }}})
			if err != nil {
				t.Fatal(err)
			}
			run(h.service, controller.Hooks{})
			h.submit("good", 2*time.Hour+1)
			h.rounds("good", 1)
			if !strings.Contains(log.String(), "quarantined") || !strings.Contains(log.String(), tc.why) {
				t.Errorf("the log does not say %q:\n%s", tc.why, log.String())
			}
			if got := quarantined(t, h.service); got["bad"] != 1 || got["good"] != 0 {
				t.Errorf("metrics %v", got)
			}
			c, err := h.service.Current("bad", "")
			if tc.revision == 0 {
				if !errors.Is(err, controller.ErrQuarantined) || !strings.Contains(err.Error(), tc.why) {
					t.Errorf("current: %v", err)
				}
			} else if err != nil || c.Revision != tc.revision {
				t.Errorf("current: %+v, %v", c, err)
			} else if _, st, err := h.service.Scheduler("bad"); err != nil || !strings.Contains(st.LastError, tc.why) {
				t.Errorf("status %+v, %v", st, err)
			}
			_, err = h.service.Ingest(ctx, controller.Call{}, "bad", []workload.Event{submission("x", 3*time.Hour)})
			if !errors.Is(err, controller.ErrQuarantined) {
				t.Errorf("ingest: %v", err)
			}
			_, _, err = h.service.Acknowledge(ctx, controller.Call{}, "bad", 1, rollout.Ack{State: rollout.AckApplied})
			if !errors.Is(err, controller.ErrQuarantined) {
				t.Errorf("acknowledge: %v", err)
			}
			reg := controller.Registration{ID: "bad", Type: "test", Params: serviceParams, Objective: "avg_jct",
				Cluster: workload.Uniform(4, 8), Policy: promptly()}
			if _, err := h.service.Register(ctx, controller.Call{}, reg); !errors.Is(err, controller.ErrExists) {
				t.Errorf("register again: %v", err)
			}
		})
	}
}

// scratched is a store whose files are damaged in several places.
type scratched struct{ controller.Store }

func (s scratched) Load() ([]controller.Saved, []controller.Request, []controller.Damage, error) {
	saved, requests, _, err := s.Store.Load()
	return saved, requests, []controller.Damage{{File: "config.db", Records: 1}, {File: "other.db"},
		{File: "config.db", Records: 2}}, err
}

// The damaged records of a file are counted wherever they are.
func TestDamageIsCounted(t *testing.T) {
	s, err := controller.NewService(controller.Options{Store: scratched{storetest.NewMemory()}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want := map[string]float64{"config.db": 3, "other.db": 1}
	if got := gauges(t, s, "autosched_store_damaged"); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A damaged revision that is not in force costs only itself.
func TestLostRevisionCostsItself(t *testing.T) {
	ctx := context.Background()
	h := start(t, adopt(func(round.Input) int { return 2 }))
	h.register("s", controller.Auto)
	h.submit("s", time.Minute)
	h.submit("s", time.Hour+1)
	h.rounds("s", 1)
	if _, _, err := h.service.Acknowledge(ctx, controller.Call{}, "s", 2,
		rollout.Ack{State: rollout.AckApplied}); err != nil {
		t.Fatal(err)
	}
	h.service.Close()
	var err error
	h.service, err = controller.NewService(controller.Options{Decide: h.decide, Store: &storetest.Faulty{Store: h.repo,
		Alter: func(saved []controller.Saved) { saved[0].Configurations[0] = lose(saved[0].Configurations[0]) }}})
	if err != nil {
		t.Fatal(err)
	}
	run(h.service, controller.Hooks{})
	h.submit("s", 2*time.Hour+1)
	h.rounds("s", 1)
	if c := h.current("s"); c.Revision != 2 {
		t.Errorf("current: %+v", c)
	}
	if _, err := h.service.Rollback(ctx, controller.Call{}, "s", rollout.Rollback{To: 1}); !errors.Is(err,
		rollout.ErrState) {
		t.Errorf("rollback to what is lost: %v", err)
	}
	if _, err := h.service.Rollback(ctx, controller.Call{}, "s", rollout.Rollback{}); !errors.Is(err,
		rollout.ErrState) {
		t.Errorf("rollback with nothing left: %v", err)
	}
	if _, _, err := h.service.Acknowledge(ctx, controller.Call{}, "s", 1,
		rollout.Ack{State: rollout.AckApplied}); !errors.Is(err,
		rollout.ErrState) {
		t.Errorf("acknowledging what is lost: %v", err)
	}
	if all, err := h.service.Configurations("s", 0, 9); err != nil || len(all) != 2 || all[1].State != rollout.Lost {
		t.Errorf("%+v, %v", all, err)
	}
}

// quarantined reads the metric by scheduler.
func quarantined(t *testing.T, s *controller.Service) map[string]float64 {
	t.Helper()
	return gauges(t, s, "autosched_scheduler_quarantined")
}

// gauges reads a metric with one label, by its value.
func gauges(t *testing.T, s *controller.Service, name string) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				out[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return out
}
