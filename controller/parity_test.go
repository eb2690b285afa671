package controller_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/simulator/live"
	"github.com/autosched/autosched/workload"
)

// TestEvaluateMeasuresTheService: on the events of a trace the service decides, adopts, holds and
// goes back as an evaluation of the trace does, at the same event times.
func TestEvaluateMeasuresTheService(t *testing.T) {
	if testing.Short() {
		t.Skip("decides the rounds of a day twice")
	}
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	const end = 30 * time.Hour
	draw := rand.New(rand.NewPCG(1, 13))
	var jobs []workload.Job
	for at := time.Minute; at < end; at += time.Duration(1+draw.IntN(16)) * time.Minute {
		long := draw.IntN(20) == 0
		j := workload.Job{ID: fmt.Sprintf("job%04d", len(jobs)), Submit: at, GPUs: workload.GPUs(1 << draw.IntN(4)),
			Duration: time.Duration(60+draw.IntN(1200)) * time.Second}
		if long {
			j.Duration = time.Duration(1+draw.IntN(4)) * time.Hour
		}
		jobs = append(jobs, j)
	}
	w, err := workload.New("parity", origin, jobs)
	if err != nil {
		t.Fatal(err)
	}
	cluster := workload.Uniform(1, 8)
	settings := round.Settings{Rule: round.RulePaper, Guard: -1, Horizon: 2 * time.Hour, Futures: 2, Budget: 8, Seed: 7}
	limits := rollout.DefaultLimits()
	limits.ChangesPerDay = 2
	limits.QuietHours = []rollout.QuietHours{{Start: time.Hour + 30*time.Minute, End: 2*time.Hour + 30*time.Minute}}

	report, err := replay.Run(t.Context(), replay.Options{Trace: w, To: end, Cluster: cluster, Scheduler: s,
		Methods: []string{"paper"}, Settings: settings, Limits: &limits, Jobs: 1})
	if err != nil {
		t.Fatal(err)
	}
	var wantRounds, wantRevisions []string
	method := report.Methods[1]
	for _, d := range method.Decisions {
		if d.AtS > end.Seconds() {
			break
		}
		wantRounds = append(wantRounds, d.At+" "+d.Reason)
		if d.Adopted {
			wantRevisions = append(wantRevisions, fmt.Sprintf("%s %s %s", d.At, rollout.FromTuning, d.Configuration))
		}
	}

	h := start(t, func(ctx context.Context, in round.Input) (round.Decision, error) {
		r, err := round.Decide(ctx, in)
		return r.Decision, err
	})
	policy := controller.Policy{UpdateInterval: round.DefaultInterval, AllowedLateness: -1, Settings: settings,
		Limits: limits}
	if _, err := h.service.Register(context.Background(), controller.Call{}, controller.Registration{ID: "s",
		Type:   s.Name,
		Params: s.Space.Params(), Rules: s.Space.Rules(), Objective: round.Objectives[0], Cluster: cluster,
		Policy: policy, Mode: controller.Auto}); err != nil {
		t.Fatal(err)
	}
	var sent []workload.Event
	ran := live.Cluster{Send: func(e workload.Event) {
		e.Time += time.Duration(origin.UnixNano())
		if e.LeaseUntil != 0 {
			e.LeaseUntil += time.Duration(origin.UnixNano())
		}
		sent = append(sent, e)
	}}
	send := func() controller.Status {
		t.Helper()
		if _, err := h.service.Ingest(t.Context(), controller.Call{}, "s", sent); err != nil {
			t.Fatal(err)
		}
		sent = nil
		for deadline := time.Now().Add(patience); !h.service.Idle("s"); time.Sleep(50 * time.Microsecond) {
			if time.Now().After(deadline) {
				t.Fatal("a decision does not end")
			}
		}
		_, st, err := h.service.Scheduler("s")
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	tick := func(at time.Duration) {
		ran.Send(workload.Event{ID: fmt.Sprint("tick", at), Kind: workload.Heartbeat, Time: at})
	}
	options := simulator.Options{Observer: ran.Observe}
	if err := ran.Sim.Start(cluster, w, s.New(s.Space.Default()), options); err != nil {
		t.Fatal(err)
	}
	var rounds []string
	decided, running := int64(0), int64(1)
	tick(0)
	for at := time.Duration(0); at <= end; at += round.BurstInterval {
		if err := ran.Sim.RunUntil(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		tick(at + 1)
		if st := send(); st.Rounds > decided {
			decided = st.Rounds
			_, reason, _ := strings.Cut(st.LastDecision, ": ")
			rounds = append(rounds, origin.Add(at).Format(time.RFC3339)+" "+reason+st.LastError)
		}
		if c := h.current("s"); c.Revision != running {
			running = c.Revision
			ran.Sim.Reconfigure(s.New(c.Config))
			ran.Applied(at, strconv.FormatInt(running, 10))
			send()
		}
	}
	all, err := h.service.Configurations("s", 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(all)
	var revisions []string
	for _, c := range all[1:] {
		revisions = append(revisions, fmt.Sprintf("%s %s %s", c.OfferedAt.Format(time.RFC3339), c.Origin, c.Config))
	}
	compare := func(what string, got, want []string) {
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Errorf("%s: the service has\n%s\nand the evaluation\n%s", what,
					strings.Join(got[min(i, len(got)):], "\n"), strings.Join(want[min(i, len(want)):], "\n"))
				return
			}
		}
	}
	compare("rounds", rounds, wantRounds)
	compare("revisions", revisions, wantRevisions)
	text := strings.Join(wantRounds, "\n")
	if len(wantRevisions) < 3 || method.Urgent == 0 ||
		!strings.Contains(text, "quiet hours are") || !strings.Contains(text, "changes by tuning in 24 hours: 2 of 2") {
		t.Errorf("too little happens:\n%s\n%s", text, strings.Join(wantRevisions, "\n"))
	}
}
