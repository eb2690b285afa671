package controller_test

import (
	"context"
	"testing"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/space"
)

// A call that checks only is answered with what would be, refuses what would be refused, and stores nothing,
// also where it makes several changes.
func TestValidateOnly(t *testing.T) {
	h := start(t, keep)
	h.register("s", controller.Auto)
	records := len(h.log())
	ctx := controller.ValidateOnly(context.Background())
	pinned, err := h.service.Pin(ctx, "s", rollout.Pin{Actor: "ann", Reason: "test"}, nil,
		func(_ *space.Space, offered space.Config) (space.Config, error) {
			return offered.With("queues", space.Int(5)), nil
		})
	if err != nil || pinned == nil || pinned.Revision != 2 {
		t.Fatalf("pin: %+v, %v", pinned, err)
	}
	back, err := h.service.Rollback(ctx, "s", rollout.Rollback{To: 1, Park: true, Actor: "ann"})
	if err != nil || back.Revision != 3 || queues(back) != queues(h.current("s")) {
		t.Errorf("roll back what would be pinned: %+v, %v", back, err)
	}
	if _, err := h.service.Rollback(ctx, "s", rollout.Rollback{To: 9, Actor: "ann"}); err == nil {
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
