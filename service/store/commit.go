package store

import (
	"errors"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// configCall is a change of config.db that waits for a commit.
type configCall struct {
	put   func(*bolt.Tx) error
	spare bool // the change may not use the reserve
	err   error
	done  chan struct{} // closed once err is set
}

// change commits to config.db, with the reserve if the disk is full.
func (r *Store) change(put func(*bolt.Tx) error) error { return r.enqueue(put, false)() }

// enqueue queues a change of config.db. Changes that wait share a commit, in their order. One that put refuses fails
// alone; put is called again without it.
func (r *Store) enqueue(put func(*bolt.Tx) error, spare bool) (wait func() error) {
	call := &configCall{put: put, spare: spare, done: make(chan struct{})}
	r.changeMu.Lock()
	r.changes = append(r.changes, call)
	if !r.changing {
		r.changing = true
		go r.commitChanges()
	}
	r.changeMu.Unlock()
	return func() error {
		<-call.done
		return call.err
	}
}

// commitChanges commits changes until none waits.
func (r *Store) commitChanges() {
	for {
		r.changeMu.Lock()
		n := 0
		for n < len(r.changes) && r.changes[n].spare == r.changes[0].spare {
			n++
		}
		calls := r.changes[:n:n]
		if r.changes = r.changes[n:]; n == 0 {
			r.changes, r.changing = nil, false
		}
		r.changeMu.Unlock()
		if n == 0 {
			return
		}
		open := slices.Clone(calls)
		commit := func() error { return r.commitCalls(&open) }
		var err error
		if calls[0].spare {
			err = r.reserve.use(commit)
		} else if err = commit(); errors.Is(err, ErrFull) {
			err = r.reserve.release(commit)
		}
		for _, c := range open {
			c.err = err
		}
		for _, c := range calls {
			_ = r.lastChange.record(c.err)
			close(c.done)
		}
	}
}

// commitCalls commits changes together, and removes the ones that put refuses, whose errors it sets. A replica with a
// record that cannot be read commits none: the place that it marks would be after a change that it lacks.
func (r *Store) commitCalls(open *[]*configCall) error {
	for len(*open) > 0 {
		refused := -1
		err := r.update(func(tx *bolt.Tx) error {
			for i, c := range *open {
				err := c.put(tx)
				if err != nil && (r.replica == nil || !errors.Is(err, ErrCorrupt)) {
					refused = i
				}
				if err != nil {
					return err
				}
			}
			return r.mark(tx)
		})
		if refused < 0 {
			return err
		}
		(*open)[refused].err = err
		*open = slices.Delete(*open, refused, refused+1)
	}
	return nil
}
