package controller_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/workload"
)

// log is the audit log, oldest first, checked.
func (h *harness) log() []controller.AuditRecord {
	h.t.Helper()
	all, err := h.service.AuditLog(0, "", 1000)
	if err != nil {
		h.t.Fatal(err)
	}
	var text bytes.Buffer
	out := make([]controller.AuditRecord, len(all))
	for i, one := range all {
		out[len(all)-1-i] = one
	}
	for _, one := range out {
		text.Write(one.Line)
		text.WriteByte('\n')
	}
	if _, err := audit.Verify(&text, ""); err != nil {
		h.t.Fatal(err)
	}
	return out
}

// Every change has one record with actor, change and reason; a call that changes nothing has none.
func TestEveryChangeHasARecord(t *testing.T) {
	keep := false
	h := start(t, func(ctx context.Context, in round.Input) (round.Decision, error) {
		if keep {
			return round.Decision{Config: in.Incumbent, Ratio: 1, Reason: "kept", History: []byte(`{"x":1}`)}, nil
		}
		return better(ctx, in)
	})
	ctx := context.Background()
	as := func(verb, why string) controller.Call {
		return controller.Call{Origin: audit.Origin{Actor: "alice", Verb: verb, RequestID: "r-" + verb, Reason: why}}
	}
	say := func(r *controller.AuditRecord) string {
		var fields []string
		for _, f := range r.Fields {
			name, after := f.Name, f.After
			if strings.HasSuffix(name, "sha256") || strings.HasSuffix(name, "acknowledgement") || name == "instances" {
				after = "..."
			}
			fields = append(fields, fmt.Sprintf("%s %s->%s", name, f.Before, after))
		}
		return fmt.Sprintf("%s %s %s %d->%d %q: %s", r.Actor, r.Verb, r.Resource, r.RevisionBefore, r.RevisionAfter,
			r.Reason, strings.Join(fields, ", "))
	}
	next := 0
	expect := func(want ...string) {
		t.Helper()
		all := h.log()
		if len(all)-next != len(want) {
			t.Fatalf("%d new records, want %d: %+v", len(all)-next, len(want), all[next:])
		}
		for i, w := range want {
			if got := say(&all[next+i]); got != w {
				t.Errorf("record %d is\n%s, want\n%s", next+i+1, got, w)
			}
		}
		next = len(all)
	}
	reg := controller.Registration{ID: "s", Type: "test", Params: serviceParams, Objective: "avg_jct",
		Cluster: workload.Uniform(4, 8), Policy: promptly(), Mode: controller.Auto}
	for range 2 { // the second is the same request again
		if _, err := h.service.Once(ctx, controller.Request{ID: "x", Digest: "d"},
			func() (string, error) {
				call := as("CreateScheduler", "")
				call.Request = "x"
				_, err := h.service.Register(ctx, call, reg)
				return "", err
			}); err != nil {
			t.Fatal(err)
		}
	}
	// A registration says all that was set; the test of the fields is that of changes.
	first := &h.log()[0]
	if !slices.ContainsFunc(first.Fields, func(f audit.Field) bool {
		return f.Name == "objective" && f.After == `"avg_jct"`
	}) {
		t.Errorf("the record of a registration has %+v", first.Fields)
	}
	created := `configurations/1.origin ->"default", configurations/1.sha256 ->..., configurations/1.state ->"published"`
	if got := say(first); !strings.HasPrefix(got, `alice CreateScheduler schedulers/s 0->1 "the registered defaults": `) ||
		!strings.HasSuffix(got, created) {
		t.Errorf("record 1 is\n%s, want\n%s at its end", got, created)
	}
	next = 1

	pause := func(on bool) func(*controller.Scheduler) error {
		return func(s *controller.Scheduler) error { s.Paused = on; return nil }
	}
	for range 2 {
		if _, err := h.service.Modify(ctx, as("PauseTuning", "maintenance"), "s", pause(true)); err != nil {
			t.Fatal(err)
		}
	}
	expect(`alice PauseTuning schedulers/s 1->1 "maintenance": paused ->true`)
	if _, err := h.service.Modify(ctx, as("ResumeTuning", ""), "s", pause(false)); err != nil {
		t.Fatal(err)
	}
	expect(`alice ResumeTuning schedulers/s 1->1 "": paused true->`)

	ingest := func(at time.Duration) {
		t.Helper()
		h.events++
		events := []workload.Event{submission(fmt.Sprint("e", h.events), at)}
		if _, err := h.service.Ingest(ctx, as("IngestEvents", ""), "s", events); err != nil {
			t.Fatal(err)
		}
	}
	ingest(time.Minute)
	expect(`events SetClock schedulers/s 1->1 "": zero "0001-01-01T00:00:00Z"->"2017-10-01T00:00:00Z"`)
	ingest(2 * time.Hour)
	h.rounds("s", 1)
	expect(`tuning Adopt schedulers/s 1->2 "more queues": last 1->2, served 1->2, ` +
		`configurations/1.state "published"->"superseded", configurations/2.origin ->"tuned", ` +
		`configurations/2.sha256 ->..., configurations/2.state ->"published"`)
	for range 2 {
		if _, _, err := h.service.Acknowledge(ctx, as("AcknowledgeConfiguration", ""), "s", 2,
			rollout.Ack{State: rollout.AckApplied}); err != nil {
			t.Fatal(err)
		}
	}
	expect(`alice AcknowledgeConfiguration schedulers/s 2->2 "": acknowledged 0->2, instances ->..., ` +
		`configurations/2.acknowledgement ->..., configurations/2.state "published"->"rolled_out"`)
	keep = true
	ingest(4 * time.Hour)
	h.rounds("s", 2)
	expect() // it is kept
	if _, err := h.service.Rollback(ctx, as("RollbackConfiguration", "it is slow"), "s",
		rollout.Rollback{}); err != nil {
		t.Fatal(err)
	}
	if all := h.log(); len(all) != next+1 || all[next].Reason != "it is slow" || all[next].RevisionAfter != 3 ||
		all[next].RequestID != "r-RollbackConfiguration" {
		t.Fatalf("%+v", all[next:])
	}
	if _, err := h.service.Rollback(ctx, as("RollbackConfiguration", ""), "none", rollout.Rollback{}); err == nil {
		t.Fatal("no error")
	}

	before := h.log()
	h.close()
	h.open()
	if after := h.log(); len(after) != len(before) {
		t.Fatalf("%d records after a restart, %d before", len(after), len(before))
	}
	if some, err := h.service.AuditLog(3, "schedulers/s", 1); err != nil || len(some) != 1 || some[0].Sequence != 2 {
		t.Fatalf("%+v, %v", some, err)
	}
	if some, err := h.service.AuditLog(0, "schedulers/t", 1); err != nil || len(some) != 0 {
		t.Fatalf("%+v, %v", some, err)
	}
}

// gapped is a store of which a file with the records of the audit log before the last cannot be read.
type gapped struct{ controller.Store }

var errGap = errors.New("audit.db: is damaged")

func (g gapped) Audit(from int64, _ bool, visit func(place int64, line []byte, err error) bool) error {
	err := g.Store.Audit(0, true, func(place int64, line []byte, err error) bool {
		if from > 0 && from < place || visit(place, line, err) {
			visit(1, nil, errGap)
		}
		return false
	})
	return errors.Join(err, errGap)
}

// A part of the log that cannot be read is a record that says so, also beside others and in a list of one resource.
func TestUnreadableAuditLog(t *testing.T) {
	h := start(t, keep)
	h.register("s", controller.Auto)
	h.register("t", controller.Auto)
	h.close()
	h.wrap = func(s controller.Store) controller.Store { return gapped{s} }
	h.open()
	for resource, want := range map[string]int{"": 2, "schedulers/s": 1, "schedulers/t": 2} {
		all, err := h.service.AuditLog(0, resource, 10)
		if err != nil || len(all) != want {
			t.Fatalf("of %q: %+v, %v", resource, all, err)
		}
		last := all[want-1]
		if last.Place != 1 || len(last.Line) > 0 || !strings.Contains(last.Reason, errGap.Error()) {
			t.Errorf("of %q: %+v", resource, last)
		}
	}
}

// TestRepeatedRefusals: an instance that fails again, with another text each time, adds no records (N8).
func TestRepeatedRefusals(t *testing.T) {
	h := start(t, keep)
	h.register("s", controller.Auto)
	records := func() int {
		t.Helper()
		all, err := h.service.AuditLog(0, "", 1000)
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	fail := func(instance string, n int) {
		t.Helper()
		if _, _, err := h.service.Acknowledge(context.Background(), controller.Call{}, "s", 1, rollout.Ack{
			State: rollout.AckFailed, Instance: instance, Error: fmt.Sprint("attempt ", n)}); err != nil {
			t.Fatal(err)
		}
	}
	fail("a", 0)
	fail("b", 0)
	before := records()
	for n := range 20 {
		fail("a", n+1)
		fail("b", n+1)
	}
	if got := records(); got != before {
		t.Errorf("%d records of repeated refusals", got-before)
	}
	if _, st, err := h.service.Scheduler("s"); err != nil || !strings.Contains(st.Degraded, "attempt 20") {
		t.Errorf("%q, %v", st.Degraded, err)
	}
	h.ack("s", 1, rollout.AckApplied)
	if got := records(); got != before+1 {
		t.Errorf("%d records of another answer", got-before)
	}
}
