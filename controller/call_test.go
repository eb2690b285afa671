package controller_test

import (
	"context"
	"testing"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/space"
)

// A dry run has the answer and the error of the call, and stores nothing.
func TestDryRun(t *testing.T) {
	h := start(t, keep)
	h.register("s", controller.Auto)
	records := len(h.log())
	ctx, call := context.Background(), controller.Call{DryRun: true}
	pinned, err := h.service.Pin(ctx, call, "s", rollout.Pin{Actor: "ann", Reason: "test"}, nil,
		func(_ *space.Space, offered space.Config) (space.Config, error) {
			return offered.With("queues", space.Int(5)), nil
		})
	if err != nil || pinned == nil || pinned.Revision != 2 {
		t.Fatalf("pin: %+v, %v", pinned, err)
	}
	if paused, err := h.service.Modify(ctx, call, "s", func(c *controller.Scheduler) error {
		c.Paused = true
		return nil
	}); err != nil || !paused.Paused {
		t.Errorf("paused: %+v, %v", paused, err)
	}
	if err := h.service.ForgetInstance(ctx, call, "s", "none"); err == nil {
		t.Error("an instance that is not there can be forgotten")
	}
	if _, err := h.service.Rollback(ctx, call, "s", rollout.Rollback{To: 9, Actor: "ann"}); err == nil {
		t.Error("a rollback to a revision that is not there is valid")
	}
	for range 2 {
		if all, err := h.service.Configurations("s", 0, 9); err != nil || len(all) != 1 || len(h.log()) != records {
			t.Errorf("%d revisions and %d records, %v", len(all), len(h.log()), err)
		}
		h.close()
		h.open()
	}
}

// Changes without an origin are the service's own.
func TestZeroCallIsTheService(t *testing.T) {
	if by := (controller.Call{DryRun: true}).By(); by.Actor != "service" || by.Verb == "" {
		t.Errorf("%+v", by)
	}
	op := audit.Origin{Actor: "op", Verb: "PauseTuning"}
	if by := (controller.Call{Origin: op}).By(); by != op {
		t.Errorf("%+v", by)
	}
}
