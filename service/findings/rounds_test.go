package findings

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"
)

// TestRounds: findings whose action is another configuration ask for a round as they open, a scheduler's not more
// often than agreed in the time of its events; one that was refused does not count, nor one before the clock was set
// back.
func TestRounds(t *testing.T) {
	asked := make(chan string, 100)
	r := NewRounds(30*time.Minute, func(_ context.Context, n *Notice) error {
		asked <- n.Scheduler + "/" + n.ID
		if n.ID == "refused" {
			return errors.New("tuning is paused")
		}
		return nil
	}, slog.New(slog.DiscardHandler))
	defer background(r.Run)()
	send := func(scheduler, id, event, action string, minutes int) {
		n := notice(id)
		n.Scheduler, n.Event, n.Action = scheduler, event, action
		n.Opened = zero.Add(time.Duration(minutes) * time.Minute)
		r.Notify(n)
	}
	send("a", "idle", "opened", "warn_idle", 0)
	send("a", "refused", "opened", "tune_queue", 0)
	send("a", "first", "opened", "tune_queue", 1)
	send("a", "first", "closed", "tune_queue", 2)
	send("a", "first", "opened", "tune_queue", 1) // found again
	send("a", "soon", "opened", "defragment", 30)
	send("a", "thrash", "opened", "freeze_tuning", 40)
	send("b", "other", "opened", "reserve", 30)
	send("a", "later", "opened", "roll_back", 31)
	send("a", "before", "opened", "tune_queue", 10)
	send("a", "set back", "opened", "tune_queue", -300)
	send("end", "", "opened", "tune_queue", 0)
	var got []string
	for one := range asked {
		if one == "end/" {
			break
		}
		got = append(got, one)
	}
	if want := []string{"a/refused", "a/first", "b/other", "a/later", "a/set back"}; !slices.Equal(got, want) {
		t.Errorf("asked for rounds: %v, want %v", got, want)
	}
}
