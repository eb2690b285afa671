package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/service/reports"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/service/studies"
	"github.com/autosched/autosched/service/workloads"
	"github.com/autosched/autosched/workload"
)

// local is the part of a replica that a leader reads.
type local interface {
	controller.RoundLog
	controller.EventLog
	prometheus.Collector
	Load() ([]controller.Saved, []controller.Request, []controller.Damage, error)
	Audit(from int64, newestFirst bool, visit func(place int64, line []byte, err error) bool) error
	Cursor(scheduler string) (string, error)
	Epoch() controller.Epoch
	Secret() []byte
	LoadStudies() ([]studies.Saved, []controller.Damage, error)
	Reports(uid string, after reports.Key, visit func(*reports.Report) bool) (damage, err error)
	LoadWorkloads() ([]workloads.Saved, []controller.Damage, error)
	WorkloadText(scheduler, uid string) ([]byte, error)
	Backup(ctx context.Context, out io.Writer) (*store.Manifest, error)
	Compact(ctx context.Context) (before, after int64, err error)
	Room(f func() error) error
}

// Store is that of a node that leads. A write returns once the log has it and the replica has applied it. It is safe
// for concurrent use.
type Store struct {
	local // the reads
	r     *Replica
	term  uint64

	// Of publish: where the log ends.
	at   store.Place
	time time.Time

	mu      sync.Mutex // guards the ones below
	waiting []*call
	err     error // why the store ended
	closed  bool

	wake    chan struct{}
	stored  chan *group   // that the log has
	ended   chan struct{} // closed with err
	drained chan struct{} // closed when apply has ended
}

// call is an op that waits.
type call struct {
	op     *store.Op
	text   json.RawMessage
	result store.Result
	done   chan struct{}
}

// group is the calls of an entry.
type group struct {
	entry entry
	calls []*call
}

func newStore(r *Replica, term uint64) *Store {
	return &Store{local: r.store, r: r, term: term, wake: make(chan struct{}, 1), stored: make(chan *group, 1),
		ended: make(chan struct{}), drained: make(chan struct{})}
}

// begin stores the term, and the ops of the first.
func (s *Store) begin(ctx context.Context, stream jetstream.Stream, ops []*store.Op) error {
	s.at, s.time = s.r.store.Place(), s.r.last
	var calls []*call
	for _, op := range ops {
		text, err := json.Marshal(op)
		if err != nil {
			return err
		}
		calls = append(calls, &call{op: op, text: text})
	}
	g, err := s.put(ctx, calls)
	if err != nil {
		return err
	}
	if err := g.read(); err != nil {
		return err
	}
	_, err = s.r.apply(&g.entry)
	return err
}

// read reads the ops of a group as other replicas do, but for events.
func (g *group) read() error {
	for _, c := range g.calls {
		op := c.op
		if op.Events == nil {
			op = &store.Op{}
			if err := json.Unmarshal(c.text, op); err != nil {
				return err
			}
		}
		g.entry.Ops = append(g.entry.Ops, op)
	}
	return nil
}

// The bounds of an entry that has several ops.
const (
	maxEvents = 1000
	maxText   = 1 << 20 // of the JSON of ops, in bytes
)

// submit queues an op.
func (s *Store) submit(op *store.Op) (*call, error) {
	text, err := json.Marshal(op)
	if err != nil {
		return nil, fmt.Errorf("jet: %w", err)
	}
	c := &call{op: op, text: text, done: make(chan struct{})}
	s.mu.Lock()
	if s.closed || s.err != nil {
		err = s.err
		s.mu.Unlock()
		if err == nil {
			err = ErrDeposed
		}
		return nil, err
	}
	s.waiting = append(s.waiting, c)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return c, nil
}

// do applies an op.
func (s *Store) do(op *store.Op) (store.Result, error) {
	c, err := s.submit(op)
	if err != nil {
		return store.Result{}, err
	}
	<-c.done
	return c.result, c.result.Err
}

// next takes the calls of the next entry; nil once the store is closed and none is left.
func (s *Store) next() []*call {
	for {
		s.mu.Lock()
		n, events, size := 0, 0, 0
		for n < len(s.waiting) {
			one := s.waiting[n]
			if n > 0 && (one.op.Alone() || s.waiting[0].op.Alone() || events >= maxEvents ||
				size+len(one.text) > maxText) {
				break
			}
			events, size, n = events+one.op.Count(), size+len(one.text), n+1
		}
		calls := s.waiting[:n:n]
		s.waiting = s.waiting[n:]
		end := n == 0 && s.closed || s.err != nil
		s.mu.Unlock()
		if s.failed() != nil {
			s.answer(calls, s.failed())
			return nil
		}
		if n > 0 {
			return calls
		}
		if end {
			return nil
		}
		select {
		case <-s.wake:
		case <-s.ended:
		}
	}
}

// publish stores entries until the store ends.
func (s *Store) publish() {
	defer close(s.stored)
	for {
		calls := s.next()
		if calls == nil {
			return
		}
		g, err := s.put(context.Background(), calls)
		switch {
		case errors.Is(err, ErrDeposed):
			s.fail(err)
			s.answer(calls, err)
			return
		case err != nil:
			s.answer(calls, err)
		default:
			s.stored <- g
		}
	}
}

// put stores an entry of calls at the end of the log. An error other than ErrDeposed means that it is not stored.
func (s *Store) put(ctx context.Context, calls []*call) (*group, error) {
	now := s.r.o.Now()
	if !now.After(s.time) {
		now = s.time.Add(1)
	}
	g := &group{calls: calls, entry: entry{Term: s.term, Prev: s.at.Sequence, Time: now.Round(0).UTC()}}
	var texts []json.RawMessage
	about := ""
	for i, c := range calls {
		texts = append(texts, c.text)
		g.entry.Reader = max(g.entry.Reader, c.op.Reader())
		if one := c.op.Scheduler(); i == 0 {
			about = one
		} else if one != about {
			about = ""
		}
	}
	text, chain := g.entry.encode(texts, s.at.Chain)
	if limit := s.r.e.conn.MaxPayload(); int64(len(text))+1024 > limit {
		return nil, fmt.Errorf("jet: the change has %d bytes, of %d that the server takes: raise max_payload",
			len(text), limit)
	}
	sequence, err := s.send(ctx, subject(about), text)
	if err != nil {
		return nil, err
	}
	g.entry.at = store.Place{Sequence: sequence, Chain: chain}
	s.at, s.time = g.entry.at, g.entry.Time
	return g, nil
}

// send stores a message after the last one, once. If that cannot be learned in time it is an ErrDeposed.
func (s *Store) send(ctx context.Context, subject string, text []byte) (uint64, error) {
	id := s.r.o.NewID()
	deadline := time.Now().Add(patience)
	asked := false // an earlier attempt may have stored it
	for {
		m := &nats.Msg{Subject: subject, Data: text, Header: nats.Header{
			jetstream.MsgIDHeader:           {id},
			jetstream.ExpectedLastSeqHeader: {strconv.FormatUint(s.at.Sequence, 10)}}}
		once, cancel := context.WithTimeout(ctx, callTimeout)
		ack, err := s.r.e.js.PublishMsg(once, m, jetstream.WithRetryAttempts(0))
		cancel()
		if err == nil {
			return ack.Sequence, nil
		}
		var refused *jetstream.APIError
		if errors.As(err, &refused) {
			switch refused.ErrorCode {
			case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
				sequence, err := s.find(ctx, id, deadline)
				if err == nil && sequence == 0 {
					err = fmt.Errorf("%w: another entry is stored after entry %d", ErrDeposed, s.at.Sequence)
				}
				return sequence, err
			case 10023, 10047, 10077: // insufficient resources, storage resources, maximum bytes
				// A server whose store is closed refuses what the others may have stored.
				if !asked && refused.Description != server.ErrStoreClosed.Error() {
					return 0, fmt.Errorf("%w: the engine refuses it: %w", store.ErrFull, err)
				}
			}
		}
		asked = true
		if time.Now().After(deadline) || ctx.Err() != nil {
			return 0, fmt.Errorf("%w: the engine does not answer: %w", ErrDeposed, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryEvery / 5):
		}
	}
}

// find returns the sequence of the entry after the last one if it has an id, and 0 if it has another.
func (s *Store) find(ctx context.Context, id string, deadline time.Time) (uint64, error) {
	for {
		once, cancel := context.WithTimeout(ctx, callTimeout)
		stream, err := s.r.e.js.Stream(once, logStream)
		var m *jetstream.RawStreamMsg
		if err == nil {
			m, err = stream.GetMsg(once, s.at.Sequence+1, jetstream.WithGetMsgSubject(logPrefix+">"))
		}
		cancel()
		switch {
		case err == nil && m.Header.Get(jetstream.MsgIDHeader) == id:
			return m.Sequence, nil
		case err == nil:
			return 0, nil
		case time.Now().After(deadline) || ctx.Err() != nil:
			return 0, fmt.Errorf("%w: the engine does not answer: %w", ErrDeposed, err)
		}
		time.Sleep(retryEvery / 5)
	}
}

// apply applies entries that are stored, and answers their calls.
func (s *Store) apply() {
	defer close(s.drained)
	for g := range s.stored {
		if err := s.failed(); err != nil {
			s.answer(g.calls, err)
			continue
		}
		var results []store.Result
		err := g.read()
		if err == nil {
			results, err = s.r.apply(&g.entry)
		}
		if err != nil { // it will be applied by the next leader
			err = fmt.Errorf("%w: %w", ErrDeposed, err)
			s.fail(err)
			s.answer(g.calls, err)
			continue
		}
		for i, c := range g.calls {
			c.result = results[i]
			close(c.done)
		}
	}
}

// answer ends calls with an error.
func (s *Store) answer(calls []*call, err error) {
	for _, c := range calls {
		c.result.Err = err
		close(c.done)
	}
}

func (s *Store) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// fail ends the store.
func (s *Store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	s.err = err
	close(s.ended)
	waiting := s.waiting
	s.waiting = nil
	s.answer(waiting, err)
}

// Done is closed once the store takes no writes any more because another node leads, or may.
func (s *Store) Done() <-chan struct{} { return s.ended }

// Err returns why the store ended, nil if it did not.
func (s *Store) Err() error { return s.failed() }

// Close ends the leadership once the writes under way have ended. The replica follows the log again.
func (s *Store) Close() error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	<-s.drained
	if !again {
		s.r.resume()
	}
	return nil
}

// NewEpoch is empty: only a move begins an epoch.
func (s *Store) NewEpoch() string { return "" }

// Health is that of the replica, and the error that ended the store.
func (s *Store) Health() (store.Health, error) {
	h, err := s.r.store.Health()
	if failed := s.failed(); failed != nil {
		h.Changes, h.Events = failed, failed
	}
	return h, err
}

// Commit implements [controller.Store].
func (s *Store) Commit(ctx context.Context, c controller.Change) error {
	return s.unless(ctx, store.ChangeOp(&c))
}

// unless applies an op unless the context has ended.
func (s *Store) unless(ctx context.Context, op *store.Op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := s.do(op)
	return err
}

// Purge implements [controller.Store].
func (s *Store) Purge(ctx context.Context, e controller.Expired) error {
	return s.unless(ctx, &store.Op{Purge: &e})
}

// Remember implements [controller.Store].
func (s *Store) Remember(ctx context.Context, r controller.Request) error {
	return s.unless(ctx, &store.Op{Remember: &r})
}

// Note implements [controller.Store].
func (s *Store) Note(ctx context.Context, r audit.Record) error {
	return s.unless(ctx, &store.Op{Note: &r})
}

// AppendEvents implements [controller.Store].
func (s *Store) AppendEvents(ctx context.Context, scheduler string, events []workload.Event) error {
	if err := ctx.Err(); err != nil || len(events) == 0 {
		return err
	}
	c, err := s.submit(store.EventsOp(scheduler, events))
	if err != nil {
		return err
	}
	select {
	case <-c.done:
		return c.result.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// KeepRound implements [controller.Store].
func (s *Store) KeepRound(uid string, sequence int64, record []byte, keep int) error {
	_, err := s.do(store.RoundOp(uid, sequence, record, keep))
	return err
}

// ArchiveAudit implements [controller.Store].
func (s *Store) ArchiveAudit(ctx context.Context, keep time.Time) error {
	return s.unless(ctx, store.ArchiveOp(keep))
}

// DropEvents implements [controller.Store].
func (s *Store) DropEvents(ctx context.Context, keep controller.Retention) (dropped []string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	op, err := s.r.store.DropOp(keep)
	if err != nil || op == nil {
		return nil, err
	}
	out, err := s.do(op)
	return out.Files, err
}

// EnqueueStudy implements [studies.Store].
func (s *Store) EnqueueStudy(change studies.Change) (wait func() error) {
	c, err := s.submit(&store.Op{Study: &change})
	if err != nil {
		return func() error { return err }
	}
	return func() error {
		<-c.done
		return c.result.Err
	}
}

// AppendReports implements [reports.Store].
func (s *Store) AppendReports(uid string, all []reports.Report, keep reports.Keep) (fresh []bool,
	dropped []reports.Key, err error) {
	out, err := s.do(store.ReportsOp(uid, all, keep))
	return out.Fresh, out.Dropped, err
}

// ChangeWorkloads implements [workloads.Store].
func (s *Store) ChangeWorkloads(c workloads.Change) error {
	for _, op := range store.WorkloadOps(&c) {
		if _, err := s.do(op); err != nil {
			return err
		}
	}
	return nil
}

// KeepWorkloads implements [workloads.Store].
func (s *Store) KeepWorkloads(scheduler string, uids map[string]bool) error {
	_, err := s.do(store.KeepTextsOp(scheduler, uids))
	return err
}
