package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/autosched/autosched/api/server/forward"
	"github.com/autosched/autosched/service"
)

// Copy is the node's copy of the records as its readers see it.
type Copy interface {
	// View returns the copy and an entry of the log whose changes it has. The copy is replaced if it is made anew.
	View() (c service.Copy, applied uint64)
	// Changed returns, once, the schedulers whose records changed, and the uids of those whose reports did, with all if
	// more changed. All of the entry that a View before it returned is there.
	Changed() (schedulers, reports []string, all bool)
}

// knowledge is that all writes which were acknowledged before an instant are in the log up to a place.
type knowledge struct {
	place uint64
	at    time.Duration
}

// maxWaiting bounds the knowledge that waits for the copy to have its place.
const maxWaiting = 128

// reading answers reads from the node's copy.
type reading struct {
	copy    Copy
	open    func(service.Copy) (*service.Reader, error)
	elapsed func() time.Duration

	closing sync.WaitGroup // of readers

	mu      sync.Mutex  // guards the ones below
	best    knowledge   // the newest whose place the copy has had; none if its place is 0
	waiting []knowledge // newer ones, in order
	of      service.Copy
	reader  *service.Reader // of it, nil if there is none
	failed  time.Duration   // when the last attempt to make one failed, 0 for never
}

// reopenAfter is the time between attempts to read a copy that cannot be read.
const reopenAfter = 10 * time.Second

// Errors of reads that the leader must answer.
var (
	errOld     = errors.New("the copy may be older than the caller allows")
	errDamaged = errors.New("the copy was not readable a moment ago")
	errLeads   = errors.New("this node leads")
)

// knows adds knowledge. Instants must not go back.
func (r *reading) knows(k knowledge) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) < maxWaiting {
		r.waiting = append(r.waiting, k)
	}
	_, applied := r.copy.View()
	r.learn(applied)
}

// learn takes knowledge whose place the copy has. The caller must hold mu.
func (r *reading) learn(applied uint64) {
	for len(r.waiting) > 0 && r.waiting[0].place <= applied {
		r.best, r.waiting = r.waiting[0], r.waiting[1:]
	}
}

// read returns a reader of a state that has all writes which were acknowledged before an instant, at most most ago.
func (r *reading) read(most time.Duration) (forward.Reader, func() time.Duration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of, applied := r.copy.View()
	r.learn(applied)
	best := r.best
	age := func() time.Duration { return r.elapsed() - best.at }
	if best.place == 0 || best.place > applied || age() > most {
		return nil, nil, errOld
	}
	if err := r.refresh(of); err != nil {
		return nil, nil, err
	}
	return r.reader, age, nil
}

// refresh has the reader read what changed. The caller must hold mu.
func (r *reading) refresh(of service.Copy) error {
	schedulers, reports, all := r.copy.Changed()
	if r.reader != nil && !all && of == r.of {
		if len(schedulers) == 0 && len(reports) == 0 {
			return nil
		}
		err := r.reader.Reread(schedulers, reports)
		if err == nil {
			return nil
		}
		r.close() // a part of the changes may be missing
		r.failed = r.elapsed()
		return err
	}
	r.close()
	if now := r.elapsed(); r.failed > 0 && now-r.failed < reopenAfter {
		return errDamaged
	}
	reader, err := r.open(of)
	if err != nil {
		r.failed = r.elapsed()
		return fmt.Errorf("the copy of the records cannot be read: %w", err)
	}
	r.reader, r.of = reader, of
	return nil
}

// close ends the reader. The caller must hold mu.
func (r *reading) close() {
	if reader := r.reader; reader != nil {
		r.closing.Go(reader.Close) // calls under way end first
	}
	r.reader, r.of = nil, nil
}

// end closes the reader.
func (r *reading) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.close()
	r.closing.Wait()
}

// read has the leader answer while it is this node: it has the newest state.
func (n *node) read(most time.Duration) (forward.Reader, func() time.Duration, error) {
	if n.lease.valid() {
		return nil, nil, errLeads
	}
	return n.reading.read(most)
}

// led is the store of a term.
type led struct {
	term  uint64
	store Store
}

// place returns the place of the log up to which all writes are that were acknowledged, if this node leads and knows.
// It is read before the lease is found valid: no other leader has acknowledged anything by then.
func (n *node) place() (uint64, bool) {
	l := n.leads.Load()
	if l == nil {
		return 0, false
	}
	at := l.store.Acknowledged()
	return at, n.lease.held() == l.term
}

// learn asks the leader for its place in the log until the context ends. While the node leads it knows by itself.
func (n *node) learn(ctx context.Context) error {
	tick := time.NewTicker(n.lease.part(pollPart))
	defer tick.Stop()
	for {
		began := n.o.Elapsed()
		place, ok := n.place()
		if !ok && !n.lease.valid() {
			at, err := n.front.Place(ctx)
			place, ok = at, err == nil
		}
		if ok {
			n.reading.knows(knowledge{place, began})
		}
		select {
		case <-ctx.Done():
			n.front.HangUp()
			return nil
		case <-tick.C:
		}
	}
}
