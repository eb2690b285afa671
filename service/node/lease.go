package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Bucket keeps small values that all nodes see.
type Bucket interface {
	// Get returns a value with its revision; ErrNone if there is none. It may return a former value.
	Get(ctx context.Context, key string) (value []byte, revision uint64, err error)
	// Put writes a value in place of the one with a revision, 0 for none, and returns its revision, which is above all
	// before it; ErrChanged if another one was written. After another error it may have been written.
	Put(ctx context.Context, key string, value []byte, after uint64) (revision uint64, err error)
}

// Errors of buckets.
var (
	ErrNone    = errors.New("no such value")
	ErrChanged = errors.New("the value changed")
)

// The times of a lease, as parts of its length.
const (
	renewPart = 0.3  // between renewals
	stopPart  = 0.6  // without a renewal, after which the leader answers nothing
	pollPart  = 0.05 // between looks at the lease
)

// leaseKey is the key of the one lease of the service.
const leaseKey = "leader"

// record is the lease in the bucket.
type record struct {
	Node        string `json:"node"` // "" if it was given back
	Process     string `json:"process"`
	Term        uint64 `json:"term"` // the revision of the record by which it was taken; 0 in that record
	Address     string `json:"address"`
	Certificate []byte `json:"certificate"`
}

// lease is the part of a node in the lease of the service. Only differences of the process's own clock count: a
// holder stops in time if clocks run at the same rate, whatever they show.
type lease struct {
	bucket  Bucket
	own     record // without a term
	length  time.Duration
	elapsed func() time.Duration // of a clock that never goes back
	log     *slog.Logger

	mu       sync.Mutex
	seen     record // the newest that was read
	revision uint64 // of it
	seenAt   time.Duration
	term     uint64        // held by this process, 0 for none
	until    time.Duration // it may answer until then
	renewed  time.Duration // when the last renewal began
	tried    time.Duration // when the first attempt to take the lease of this revision began
	attempt  uint64        // the revision, of which 0 is a lease that was never taken
	trying   bool
}

func (l *lease) part(share float64) time.Duration { return time.Duration(share * float64(l.length)) }

// valid reports whether this process may answer as the leader.
func (l *lease) valid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term > 0 && l.elapsed() < l.until
}

// held returns the term that this process holds, 0 if none.
func (l *lease) held() uint64 {
	if !l.valid() {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term
}

// leader returns the newest lease and its age, if it is not over.
func (l *lease) leader() (r record, age time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	age = l.elapsed() - l.seenAt
	return l.seen, age, l.revision > 0 && l.seen.Node != "" && age < l.length
}

// step looks at the lease, and renews it, or takes it if it is over and the process can lead.
func (l *lease) step(ctx context.Context, able bool) {
	ctx, cancel := context.WithTimeout(ctx, l.part(renewPart)/2)
	defer cancel()
	l.mu.Lock()
	term, revision, until, renewed := l.term, l.revision, l.until, l.renewed
	l.mu.Unlock()
	now := l.elapsed()
	switch {
	case term > 0 && now >= until:
		l.lose("it was not renewed in time")
	case term > 0 && now-renewed >= l.part(renewPart):
		l.write(ctx, term, revision)
	case term > 0:
	default:
		l.look(ctx, able)
	}
}

// write renews or takes the lease; 0 is a new term.
func (l *lease) write(ctx context.Context, term, after uint64) {
	began := l.elapsed()
	if term == 0 {
		l.mu.Lock()
		if !l.trying || l.attempt != after {
			l.trying, l.attempt, l.tried = true, after, began
		}
		began = l.tried // an attempt before may be the one that is written
		l.mu.Unlock()
	}
	r := l.own
	r.Term = term
	revision, err := l.put(ctx, r, after)
	if err != nil && term > 0 {
		// An answer may have been lost: the record says whether the term goes on.
		if r, revision, readable := l.get(ctx); readable == nil && revision >= after {
			if r.Process != l.own.Process || termOf(r, revision) != term {
				l.lose("another node leads")
				return
			}
			l.mu.Lock()
			l.revision = revision
			l.mu.Unlock()
		}
	}
	if err != nil {
		l.log.Debug("the lease is not written", "err", err)
		return
	}
	l.hold(r, revision, began)
}

// hold records a lease of this process that was written or found.
func (l *lease) hold(r record, revision uint64, began time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Term = termOf(r, revision)
	l.seen, l.revision, l.seenAt = r, revision, l.elapsed()
	l.term, l.until, l.renewed, l.trying = r.Term, began+l.part(stopPart), began, false
}

func termOf(r record, revision uint64) uint64 {
	if r.Term == 0 {
		return revision
	}
	return r.Term
}

// lose ends the term.
func (l *lease) lose(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.term == 0 {
		return
	}
	l.log.Warn("this node no longer leads", "term", l.term, "why", why)
	l.term = 0
	l.seen.Node = "" // this process answers no more: it may take the lease again, if no other one did
}

// look reads the lease, and takes one that is over.
func (l *lease) look(ctx context.Context, able bool) {
	r, revision, err := l.get(ctx)
	if err != nil && !errors.Is(err, ErrNone) {
		l.log.Debug("the lease is not read", "err", err)
		return
	}
	now := l.elapsed()
	l.mu.Lock()
	if revision > l.revision { // a former value is no news
		if r.Process == l.own.Process && r.Term == 0 && l.trying && able {
			tried := l.tried
			l.mu.Unlock()
			l.hold(r, revision, tried) // the answer to the attempt was lost
			return
		}
		r.Term = termOf(r, revision)
		l.seen, l.revision, l.seenAt = r, revision, now
	}
	over := l.revision == 0 || l.seen.Node == "" || now-l.seenAt >= l.length
	after := l.revision
	l.mu.Unlock()
	if over && able {
		l.write(ctx, 0, after)
	}
}

// release gives the lease back, so that another node takes it at once.
func (l *lease) release(ctx context.Context) {
	l.mu.Lock()
	term, after := l.term, l.revision
	l.term = 0
	l.mu.Unlock()
	if term == 0 {
		return
	}
	if _, err := l.put(ctx, record{Process: l.own.Process, Term: term}, after); err != nil {
		l.log.Warn("the lease is not given back; it ends by itself", "err", err)
	}
}

func (l *lease) get(ctx context.Context) (r record, revision uint64, err error) {
	text, revision, err := l.bucket.Get(ctx, leaseKey)
	if err != nil {
		return r, 0, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, 0, fmt.Errorf("the lease: %w", err)
	}
	return r, revision, nil
}

func (l *lease) put(ctx context.Context, r record, after uint64) (uint64, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return 0, err
	}
	return l.bucket.Put(ctx, leaseKey, text, after)
}

// membersPrefix begins the keys of nodes' certificates.
const membersPrefix = "node."

// join puts the certificate of a node in place of that of its former process.
func join(ctx context.Context, b Bucket, node string, certificate []byte) error {
	for {
		_, revision, err := b.Get(ctx, membersPrefix+node)
		if err == nil || errors.Is(err, ErrNone) {
			_, err = b.Put(ctx, membersPrefix+node, certificate, revision)
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(joinAgain):
		}
	}
}

// joinAgain is the time between attempts to join.
const joinAgain = 200 * time.Millisecond
