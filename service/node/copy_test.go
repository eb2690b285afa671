package node

import (
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/autosched/autosched/api/access"
	"github.com/autosched/autosched/api/server"
	"github.com/autosched/autosched/service"
	"github.com/autosched/autosched/service/store"
)

// behindCopy is a copy whose place a test sets.
type behindCopy struct {
	of      *store.Store
	applied uint64
	changed []string
}

func (c *behindCopy) View() (service.Copy, uint64) { return c.of, c.applied }

func (c *behindCopy) Changed() (schedulers, reports []string, all bool) {
	out := c.changed
	c.changed = nil
	return out, nil, false
}

// TestReadingKeepsTheBound: a copy is read only while it has all that was acknowledged before an instant within the
// bound, whatever happens between.
func TestReadingKeepsTheBound(t *testing.T) {
	dir, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	files, err := access.Open(access.Files{}, access.Options{})
	if err != nil {
		t.Fatal(err)
	}
	now, opened := time.Duration(0), 0
	var broken error
	c := &behindCopy{of: dir, applied: 10}
	r := &reading{copy: c, elapsed: func() time.Duration { return now },
		open: func(of service.Copy) (*service.Reader, error) {
			opened++
			if broken != nil {
				return nil, broken
			}
			return service.NewReader(of, service.ReaderOptions{Access: files, Log: slog.New(slog.DiscardHandler),
				Server: server.Options{}})
		}}
	defer r.end()
	read := func(most time.Duration) (age time.Duration, err error) {
		_, since, err := r.read(most)
		if err == nil {
			age = since()
		}
		return age, err
	}
	if _, err := read(time.Hour); !errors.Is(err, errOld) {
		t.Errorf("before anything is known: %v", err)
	}
	now = 5 * time.Second
	r.knows(knowledge{10, now})
	now += time.Second
	if age, err := read(time.Second); err != nil || age != time.Second {
		t.Errorf("a second after: age %v, %v", age, err)
	}
	r.knows(knowledge{12, now}) // the copy lacks two entries
	now += time.Second
	if _, err := read(1500 * time.Millisecond); !errors.Is(err, errOld) {
		t.Errorf("a copy that lacks entries: %v", err)
	}
	if age, err := read(2 * time.Second); err != nil || age != 2*time.Second {
		t.Errorf("the age is that of the last instant whose entries it has: %v, %v", age, err)
	}
	c.applied = 12
	if age, err := read(time.Second); err != nil || age != time.Second {
		t.Errorf("once it has them: age %v, %v", age, err)
	}
	_, since, err := r.read(time.Second)
	now += 30 * time.Second // a pause, in the read or before the next
	if err != nil || since() != 31*time.Second {
		t.Errorf("a read in which the process was paused: age %v, %v", since(), err)
	}
	if _, err := read(5 * time.Second); !errors.Is(err, errOld) {
		t.Errorf("after a pause: %v", err)
	}
	r.knows(knowledge{12, now})
	c.applied = 11 // it was made anew
	if _, err := read(time.Hour); !errors.Is(err, errOld) {
		t.Errorf("a copy that was made anew: %v", err)
	}
	c.applied = 12
	if _, err := read(time.Second); err != nil || opened != 1 {
		t.Errorf("it was opened %d times, %v", opened, err)
	}
	c.changed = []string{"none"}
	if _, err := read(time.Second); err != nil || opened != 1 {
		t.Errorf("after a change it was opened %d times, %v", opened, err)
	}
	for i := range 3 * maxWaiting { // a copy that does not move
		r.knows(knowledge{20 + uint64(i), now})
	}
	if len(r.waiting) > maxWaiting {
		t.Errorf("%d wait", len(r.waiting))
	}

	next, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	c.of, broken = next, io.ErrUnexpectedEOF
	for range 5 {
		if _, err := read(time.Second); err == nil {
			t.Error("a copy that cannot be read was")
		}
	}
	if opened != 2 {
		t.Errorf("it was opened %d times within a moment", opened-1)
	}
	now, broken = now+reopenAfter, nil
	if _, err := read(time.Hour); err != nil || opened != 3 {
		t.Errorf("later it was opened %d times, %v", opened-1, err)
	}
}
