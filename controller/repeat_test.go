package controller_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/service/stores"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// stored are the rounds of a directory that no service uses, oldest first, and their scheduler.
func stored(t *testing.T, dir string) (*store.Reader, *controller.Saved, []*controller.RoundRecord) {
	t.Helper()
	r, err := store.OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	saved, _, _, err := r.Load()
	if err != nil {
		t.Fatal(err)
	}
	var out []*controller.RoundRecord
	if err := r.Rounds(saved[0].Scheduler.UID, 0, func(n int64, text []byte, err error) bool {
		out = append([]*controller.RoundRecord{controller.DecodeRound(n, text, err)}, out...)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return r, &saved[0], out
}

// Every round, also one that kept the incumbent, is decided again bit for bit from the events on
// disk: over a restart, with events that came late, and by another number of workers.
func TestRoundsAreRepeatedBitForBit(t *testing.T) {
	ctx := context.Background()
	decide := func(ctx context.Context, in round.Input) (round.Decision, error) {
		d, err := round.DecideOnline(ctx, in)
		if in.Round == 6 && err == nil {
			d.Config, d.Adopt, d.Reason = d.Measured[1].Config, true, "test"
		}
		return d, err
	}
	c := simulate(t, controller.Auto, decide)
	c.until(3*time.Hour, nil)
	if _, err := c.service.Modify(ctx, controller.Call{}, simulatedID, func(s *controller.Scheduler) error {
		s.Policy.Budget, s.Policy.Futures, s.Simulation.MaxPreemptions = 25, 3, 2
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	c.until(5*time.Hour+time.Minute, nil)
	for i := range 3 { // of the time before the last round, which did not know them
		c.sent = append(c.sent, submission("late"+string(rune('a'+i)), 4*time.Hour+time.Duration(i)*time.Minute))
	}
	c.send()
	c.restart()
	c.until(8*time.Hour, nil)
	live, err := c.service.Rounds(simulatedID, 0, 100)
	if err != nil || len(live) < 7 {
		t.Fatal(len(live), err)
	}
	if one, err := c.service.Round(simulatedID, 2); err != nil || one.Sequence != 2 || one.Outcome == "" {
		t.Fatal(one, err)
	}
	adopted := map[int64]int64{}
	for _, r := range c.revisions() {
		if r.Evidence != nil {
			adopted[r.Revision] = r.Evidence.Record
		}
	}
	c.service.Close()
	if err := c.repo.Close(); err != nil {
		t.Fatal(err)
	}
	defer c.open() // for the harness

	log, saved, rounds := stored(t, c.dir)
	defer log.Close()
	if len(rounds) != len(live) {
		t.Fatalf("%d rounds, want %d", len(rounds), len(live))
	}
	kept := 0
	for i, r := range rounds {
		if r.Damage != nil || r.Sequence != int64(i+1) || r.Decision == nil || r.Simulator != simulator.Version {
			t.Fatalf("%+v", r)
		}
		if r.Revision != 0 && adopted[r.Revision] != r.Sequence {
			t.Errorf("revision %d of round %d names round %d", r.Revision, r.Sequence, adopted[r.Revision])
		}
		if r.Revision == 0 {
			kept++
		}
		again, err := controller.RepeatRound(ctx, log, saved, r, decide, 1+i%3)
		if err != nil || again.Difference != "" || again.Digest != r.Digest || again.Unread != nil ||
			again.Events != r.Events {
			t.Errorf("round %d: %v, %+v", r.Sequence, err, again)
		}
	}
	last := rounds[len(rounds)-1]
	if n := len(last.Decision.Candidates); kept == 0 || len(adopted) == 0 || n == 0 ||
		len(last.Decision.Candidates[0].Objective) != 3 || len(last.Decision.Candidates[0].Config) == 0 ||
		len(last.Decision.Before) == 0 {
		t.Errorf("%d kept, %v adopted, %d candidates", kept, adopted, n)
	}

	t.Run("another decision", func(t *testing.T) {
		for name, f := range map[string]func(*round.Decision){
			"decision.adopt is": func(d *round.Decision) { d.Adopt = !d.Adopt },
			"decision.candidates[1].objective[2] ": func(d *round.Decision) {
				d.Measured[1].Objective = slices.Clone(d.Measured[1].Objective)
				d.Measured[1].Objective[2] += 1e-9
			},
			"decision.history_sha256 is": func(d *round.Decision) { d.History = json.RawMessage("{}") },
		} {
			again, err := controller.RepeatRound(ctx, log, saved, last, func(ctx context.Context,
				in round.Input) (round.Decision, error) {
				d, err := round.DecideOnline(ctx, in)
				f(&d)
				return d, err
			}, 1)
			if err != nil || !strings.Contains(again.Difference, name) {
				t.Errorf("%s: %v %+v", name, err, again)
			}
		}
	})
	t.Run("another input", func(t *testing.T) {
		other := *last
		other.Input.Settings.Futures++
		again, err := controller.RepeatRound(ctx, log, saved, &other, round.DecideOnline, 1)
		if err != nil || !strings.Contains(again.Difference, "the input has SHA-256") || again.Decision != nil {
			t.Errorf("%v %+v", err, again)
		}
	})
	t.Run("events dropped", func(t *testing.T) {
		names, err := filepath.Glob(filepath.Join(c.dir, "events-*"))
		if err != nil || len(names) == 0 {
			t.Fatal(err)
		}
		moved := t.TempDir()
		for _, n := range names {
			if err := os.Rename(n, filepath.Join(moved, filepath.Base(n))); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.Rename(filepath.Join(moved, filepath.Base(n)), n) }()
		}
		again, err := controller.RepeatRound(ctx, log, saved, last, round.DecideOnline, 1)
		if err != nil || !strings.Contains(again.Difference, "the store has 0 events up to the round, which knew ") {
			t.Errorf("%v %+v", err, again)
		}
	})
}

// The digest is of every field of the input of a round, but for those that keep results.
func TestDigestsTellInputsApart(t *testing.T) {
	reflected := reflect.TypeFor[round.Input]()
	covered := map[string]bool{"Snapshot": true, "Settings": true, "Scheduler": true, "Space": true, "Goal": true,
		"Incumbent": true, "Refused": true, "Round": true, "Urgent": true, "History": true, "Engine": true,
		"Replays": true}
	for i := range reflected.NumField() {
		if name := reflected.Field(i).Name; !covered[name] {
			t.Errorf("round.Input has a field %s, which the digest may lack", name)
		}
	}
}

// Rounds that cannot be stored, and records that are damaged, cost themselves only.
func TestRecordsOfRoundsAreNoCondition(t *testing.T) {
	h := start(t, better)
	h.register("s", controller.Auto)
	h.submit("s", time.Minute)
	for n := range int64(3) {
		h.submit("s", time.Duration(n+1)*time.Hour+time.Minute)
		h.rounds("s", n+1)
	}
	all, err := h.service.Rounds("s", 0, 10)
	if err != nil || len(all) != 3 || all[0].Sequence != 3 || all[0].Outcome == "" || all[2].Revision != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	if some, err := h.service.Rounds("s", 3, 1); err != nil || len(some) != 1 || some[0].Sequence != 2 {
		t.Fatalf("%+v, %v", some, err)
	}
	for _, n := range []int64{-1, 0, 4} {
		if _, err := h.service.Round("s", n); err == nil {
			t.Errorf("round %d is there", n)
		}
	}
	h.close()
	path := filepath.Join(h.dir, "rounds.db")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range text { // all pages
		text[i] ^= 0x55
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	h.open()
	h.submit("s", 5*time.Hour)
	h.rounds("s", 1)
	h.ack("s", 2, rollout.AckApplied)
	h.submit("s", 7*time.Hour)
	h.rounds("s", 2)
	all, err = h.service.Rounds("s", 0, 10)
	if err != nil || len(all) == 0 || all[len(all)-1].Sequence != 2 { // revision 2 names round 1
		t.Errorf("%+v, %v", all, err)
	}
	if got := h.current("s").Revision; got != 3 {
		t.Errorf("revision %d is offered, want 3", got)
	}
	if _, err := os.Stat(path + ".damaged"); err != nil {
		t.Error(err)
	}
}

// As many records are kept as the service is asked for.
func TestKeptRounds(t *testing.T) {
	h := start(t, better)
	h.close()
	var err error
	if h.repo, err = stores.Open(h.dir, store.Options{}); err != nil {
		t.Fatal(err)
	}
	if h.service, err = controller.NewService(controller.Options{Store: h.repo, Decide: h.decide, Workers: 1,
		KeepRounds: 2}); err != nil {
		t.Fatal(err)
	}
	run(h.service, controller.Hooks{})
	h.register("s", controller.Auto)
	for n := range int64(5) {
		h.submit("s", time.Duration(n)*time.Hour+time.Minute)
		if n > 0 {
			h.rounds("s", n)
		}
	}
	all, err := h.service.Rounds("s", 0, 10)
	if err != nil || len(all) != 2 || all[0].Sequence != 4 || all[1].Sequence != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
}

// BenchmarkDigest is of the digest of a round with 100,000 jobs in its memory.
func BenchmarkDigest(b *testing.B) {
	l := workload.NewLedger(workload.Uniform(100, 8))
	for i := range 100_000 {
		j := workload.Job{ID: "job" + time.Duration(i).String(), User: "u", Tenant: "vc", Key: "k",
			GPUs: workload.GPUs(1)}
		at := time.Duration(i) * 20 * time.Second
		l.Apply(workload.Event{ID: j.ID + "s", Kind: workload.Submitted, Time: at, Job: j})
		l.Apply(workload.Event{ID: j.ID + "r", Kind: workload.Started, Time: at + 1, Job: j})
		l.Apply(workload.Event{ID: j.ID + "f", Kind: workload.Finished, Time: at + time.Hour, Job: j})
	}
	at := 100_000 * 20 * time.Second
	sp, err := space.New(serviceParams, nil)
	if err != nil {
		b.Fatal(err)
	}
	in := round.Input{Snapshot: round.Snapshot{State: l.State(at), Ledger: l}, Space: sp}
	for b.Loop() {
		if _, err := (&controller.RoundInput{Incumbent: []byte("{}")}).Digest(&in); err != nil {
			b.Fatal(err)
		}
	}
}
