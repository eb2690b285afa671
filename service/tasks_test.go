package service

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestRunStopsInOrder: each task is stopped after all tasks below it have returned, whether the context ends or a task
// fails; its errors are the errors of the tasks.
func TestRunStopsInOrder(t *testing.T) {
	fault := errors.New("the listener is gone")
	for _, fails := range []string{"", "first", "second", "last"} {
		var mu sync.Mutex
		var events []string
		note := func(event string) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, event)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all []task
		var up sync.WaitGroup
		for _, name := range []string{"first", "second", "last"} {
			up.Add(1)
			all = append(all, task{name, func(ctx context.Context) error {
				up.Done()
				up.Wait()
				if name == fails {
					return fault
				}
				if fails == "" && name == "last" {
					cancel()
				}
				<-ctx.Done()
				note(name + " stops")
				time.Sleep(5 * time.Millisecond)
				note(name + " ended")
				return nil
			}})
		}
		err := run(ctx, all)
		cancel()
		want := []string{"last stops", "last ended", "second stops", "second ended", "first stops", "first ended"}
		want = slices.DeleteFunc(want, func(e string) bool { return fails != "" && e[:4] == fails[:4] })
		if !slices.Equal(events, want) || (err != nil) != (fails != "") || err != nil && !errors.Is(err, fault) {
			t.Errorf("%q fails: %v, %v, want %v", fails, events, err, want)
		}
	}
}

// TestRunKeepsValues: tasks see the values of the context, and not its end before their turn.
func TestRunKeepsValues(t *testing.T) {
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "x"))
	cancel()
	below := false
	err := run(ctx, []task{
		{"above", func(ctx context.Context) error {
			<-ctx.Done()
			if !below {
				return errors.New("it is stopped before the task below it ended")
			}
			return nil
		}},
		{"below", func(ctx context.Context) error {
			<-ctx.Done()
			if ctx.Value(key{}) != "x" {
				return errors.New("a value is lost")
			}
			below = true
			return nil
		}},
	})
	if err != nil {
		t.Error(err)
	}
}
