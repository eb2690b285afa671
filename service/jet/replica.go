package jet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/service/store"
)

const (
	// callTimeout bounds a call of the engine, and patience the time in which a leader learns whether an entry was
	// stored: less than its lease.
	callTimeout = 2 * time.Second
	patience    = 5 * time.Second
	duplicates  = 2 * time.Minute
	// lookEvery is how often the end of the log is asked for, and knownFor how long an answer counts. A replica that
	// has not the end and applies nothing for so long reads on by another consumer.
	lookEvery = time.Second
	knownFor  = 4 * time.Second
	// gatherEvery is the least time between two moves of the servers' leaders.
	gatherEvery = 5 * time.Second
	damaged     = ".damaged" // of the directory of a replica that was made anew
	anew        = ".new"     // of the one that is made in its place
	former      = ".former"  // of one that was made anew and is made anew again, until it is removed
	unproven    = "UNPROVEN" // a file of the former one, until the new one has the whole log
)

// Errors of replicas and stores.
var (
	// ErrDeposed is the error of a store whose node leads no more. A change that was under way may have been made.
	ErrDeposed = fmt.Errorf("the node does not lead any more: %w", store.ErrClosed)
	// ErrMigration is the error of a cluster to which records were being moved.
	ErrMigration = errors.New("the move of a directory to this cluster did not end: repeat it")
	// errAhead is the error of a log that ends before the replica: the answer of a server that does not know of all
	// entries. The replica has acknowledged ones and is kept.
	errAhead = errors.New("the servers do not have all entries: is there a majority of them?")
	// errBehind is the error of a replica that needs entries that are removed.
	errBehind = errors.New("the replica is behind the log")
	// errReplaced is the error of a replica between two directories. A start goes on with the one that is there.
	errReplaced = errors.New("the directory of the replica was replaced, and does not open: start the node again")
)

// Options of a replica. Dir is required.
type Options struct {
	Dir   string
	Log   *slog.Logger     // nothing is logged if nil
	Now   func() time.Time // the clock of entries; time.Now if nil
	NewID func() string    // makes ids of epochs, secrets and entries; crypto/rand.Text if nil
	// SnapshotAfter is the size of the log, in bytes, from which an archive replaces it; DefaultSnapshotAfter if 0.
	SnapshotAfter uint64
}

// Replica is the directory of a node, which follows the log.
type Replica struct {
	e *Engine
	o Options

	turn sync.Mutex // held while entries are applied, by Run or by a Store until it is closed

	mu      sync.Mutex // guards the ones below
	leading bool
	stop    context.CancelFunc // ends the present turn of Run; nil for none
	resumed chan struct{}      // closed and replaced when a leader ends

	applying sync.Mutex   // held while an entry is applied, and while an archive is made
	store    *store.Store // replaced while turn is held, too
	term     uint64
	last     time.Time // of the last entry

	applied, known atomic.Uint64
	view           atomic.Pointer[store.Store] // store, for readers
	changed        changes
	appliedAt      atomic.Int64
	asked          atomic.Pointer[time.Time] // before the last question for the end of the log that was answered
}

// Open opens the replica of a node, and makes it from the last archive if it is missing.
func Open(ctx context.Context, e *Engine, o Options) (*Replica, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = rand.Text
	}
	if o.SnapshotAfter == 0 {
		o.SnapshotAfter = DefaultSnapshotAfter
	}
	r := &Replica{e: e, o: o, resumed: make(chan struct{})}
	entries, err := os.ReadDir(o.Dir)
	if err == nil && len(entries) > 0 {
		if err = r.open(); errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrLost) {
			err = r.remake(ctx, err)
		}
	} else if err = r.first(ctx); err == nil {
		err = r.open()
	}
	if err == nil {
		err = errors.Join(sweep(filepath.Dir(o.Dir)), os.RemoveAll(o.Dir+anew), os.RemoveAll(o.Dir+former))
	}
	if err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	return r, nil
}

// first makes a replica where there is none. Until it is whole it is beside its place.
func (r *Replica) first(ctx context.Context) error {
	next := r.o.Dir + anew
	if err := os.RemoveAll(next); err != nil {
		return err
	}
	for {
		_, err := r.restore(ctx, next)
		if err == nil {
			break
		}
		if !passes(err) || ctx.Err() != nil {
			return err
		}
		r.o.Log.Warn("the replica is not made; trying again", "in", retryEvery, "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(retryEvery):
		}
	}
	r.e.step("restored")
	if err := os.Remove(r.o.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // it is empty
		return err
	}
	if err := os.Rename(next, r.o.Dir); err != nil {
		return err
	}
	r.e.step("in place")
	return atomicfile.SyncDir(filepath.Dir(r.o.Dir))
}

// open opens the directory.
func (r *Replica) open() error {
	s, err := store.Open(r.o.Dir, store.Options{Replica: true, Log: r.o.Log, NewID: r.o.NewID})
	if err == nil {
		r.store = s
		r.applied.Store(s.Place().Sequence)
		r.view.Store(s)
	}
	return err
}

// remake makes the replica from the last archive and sets the former directory aside. One that is aside stays until a
// replica has had the whole log since: it may be the only one with all records. One that was made anew since then is
// made anew again if archives and the log went on without it.
func (r *Replica) remake(ctx context.Context, why error) error {
	aside, next := r.o.Dir+damaged, r.o.Dir+anew
	refused := fmt.Errorf("the replica was made anew and cannot follow the log either: move %s away to have it made "+
		"anew again, or, if no node can lead, make a service of that directory by autosched admin backup and "+
		"restore: %w", aside, why)
	_, err := os.Stat(filepath.Join(aside, unproven))
	again := err == nil
	if again && !errors.Is(why, errBehind) {
		return refused
	}
	if err := os.RemoveAll(next); err != nil {
		return err
	}
	last, err := r.restore(ctx, next)
	if err != nil {
		return fmt.Errorf("the replica is not made anew (%w), which it must be: %w", err, why)
	}
	if again && last <= r.store.Place().Sequence {
		return refused
	}
	r.e.step("restored")
	r.o.Log.Error("the replica is made anew, and the former one is set aside", "as", aside, "err", why)
	r.applying.Lock()
	defer r.applying.Unlock()
	to := r.o.Dir + former
	if !again {
		to = aside
		if err := os.WriteFile(filepath.Join(r.o.Dir, unproven), nil, 0o600); err != nil {
			return err
		}
		if err := atomicfile.SyncDir(r.o.Dir); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	r.e.step("marked")
	if r.store != nil {
		_ = r.store.Close()
	}
	if err = os.Rename(r.o.Dir, to); err == nil {
		r.e.step("set aside")
		err = os.Rename(next, r.o.Dir)
	}
	if err == nil {
		r.e.step("in place")
		err = errors.Join(atomicfile.SyncDir(filepath.Dir(r.o.Dir)), r.open())
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errReplaced, err)
	}
	return nil
}

// Close releases the directory, which says how far it is. The replica must not be used any more.
func (r *Replica) Close() error {
	r.turn.Lock()
	defer r.turn.Unlock()
	return errors.Join(r.store.Mark(), r.store.Close())
}

// Run follows the log until the context ends, while the node does not lead. An error means that this program cannot
// follow it.
func (r *Replica) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	all.Go(func() { r.archives(ctx) })
	all.Go(func() { r.look(ctx) })
	lost := make(chan error, 1)
	all.Go(func() {
		if err := r.e.lost(ctx); err != nil {
			lost <- err
			end()
		}
	})
	for {
		r.mu.Lock()
		resumed := r.resumed
		if r.leading {
			r.mu.Unlock()
			select {
			case <-resumed:
			case <-ctx.Done():
				return ended(lost)
			}
			continue
		}
		turn, stop := context.WithCancel(ctx)
		r.stop = stop
		r.mu.Unlock()
		r.turn.Lock()
		err := r.follow(turn)
		if turn.Err() == nil && (errors.Is(err, errBehind) || errors.Is(err, errChain) ||
			errors.Is(err, store.ErrCorrupt)) {
			err = r.remake(turn, err)
		}
		r.turn.Unlock()
		over := turn.Err() != nil
		stop()
		switch {
		case ctx.Err() != nil:
			return ended(lost)
		case errors.Is(err, store.ErrNewer), errors.Is(err, errReplaced):
			return fmt.Errorf("replica: %w", err)
		case err != nil && !over:
			r.o.Log.Error("the log is not followed; trying again", "in", time.Second, "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

// ended is the result of Run once its context has ended.
func ended(lost <-chan error) error {
	select {
	case err := <-lost:
		return err
	default:
		return nil
	}
}

// follow applies entries as they come. The caller must hold turn.
func (r *Replica) follow(ctx context.Context) error {
	stream, err := r.e.js.Stream(ctx, logStream)
	if err != nil {
		return err
	}
	last, err := r.end(ctx, stream)
	if err != nil {
		return err
	}
	if err := r.proven(last); err != nil {
		return err
	}
	c, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: r.store.Place().Sequence + 1})
	if err != nil {
		return err
	}
	messages, err := c.Messages(jetstream.PullExpiry(knownFor), jetstream.PullHeartbeat(lookEvery))
	if err != nil {
		return err
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	arrived := make(chan arrival, atHand)
	go arrive(ctx, messages, arrived)
	for {
		var b batch
		ended := b.take(ctx, r, arrived)
		if _, err := r.apply(b.entries...); err != nil {
			return err
		}
		if err := errors.Join(ended, r.proven(last)); err != nil {
			return err
		}
	}
}

// proven removes the mark of the former directory once the replica has the log up to an entry.
func (r *Replica) proven(last uint64) error {
	if r.store.Place().Sequence < last {
		return nil
	}
	err := os.Remove(filepath.Join(r.o.Dir+damaged, unproven))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// end returns the last entry of the log, and an error if the replica cannot go on with it.
func (r *Replica) end(ctx context.Context, stream jetstream.Stream) (last uint64, err error) {
	once, cancel := context.WithTimeout(ctx, callTimeout/2)
	info, err := stream.Info(once)
	cancel()
	if err != nil {
		return 0, err
	}
	last = info.State.LastSeq
	raise(&r.known, last)
	at := r.store.Place().Sequence
	switch {
	case at > last:
		return 0, fmt.Errorf("%w: the replica is at entry %d, the log ends at %d", errAhead, at, last)
	case at < last && at+1 < info.State.FirstSeq:
		return 0, fmt.Errorf("%w: it is at entry %d, the log begins at %d", errBehind, at, info.State.FirstSeq)
	}
	return last, nil
}

// catchUp applies the entries that the log has, one after the other: a new leader lacks few, and does not wait for a
// consumer. The caller must hold turn.
func (r *Replica) catchUp(ctx context.Context, stream jetstream.Stream) error {
	last, err := r.end(ctx, stream)
	if err != nil {
		return err
	}
	for at := r.store.Place().Sequence; at < last && err == nil; {
		var b batch
		for at < last && err == nil && !b.full() {
			var m *jetstream.RawStreamMsg
			if m, err = stream.GetMsg(ctx, at+1, jetstream.WithGetMsgSubject(logPrefix+">")); err == nil {
				at = m.Sequence
				err = b.add(r, m.Sequence, m.Data)
			}
		}
		if _, err := r.apply(b.entries...); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return r.proven(last)
}

// apply applies entries.
func (r *Replica) apply(entries ...*entry) ([]store.Result, error) {
	r.applying.Lock()
	defer r.applying.Unlock()
	all := make([]store.Entry, 0, len(entries))
	for _, e := range entries {
		all = append(all, store.Entry{Place: e.at, Time: e.Time, Ops: e.Ops})
	}
	out, err := r.store.Apply(all...)
	applied := r.store.Place().Sequence
	for _, e := range entries {
		r.changed.add(e.Ops) // of an error, too: a part may be there
		if e.at.Sequence <= applied {
			r.term, r.last = max(r.term, e.Term), e.Time
			r.appliedAt.Store(e.Time.UnixNano())
		}
	}
	r.applied.Store(applied)
	return out, err
}

// Position returns the last entry that is applied, the last one that is known of, and the time of the former by the
// clock of its leader.
func (r *Replica) Position() (applied, known uint64, at time.Time) {
	applied = r.applied.Load()
	return applied, max(applied, r.known.Load()), time.Unix(0, r.appliedAt.Load()).UTC()
}

// Lag is the number of entries that the log has and the replica has not. It is not known while the log's leader does
// not answer.
func (r *Replica) Lag() (entries uint64, known bool) {
	applied, last, _ := r.Position()
	asked := r.asked.Load()
	return last - applied, asked != nil && time.Since(*asked) < knownFor
}

// look learns the end of the log until the context ends.
func (r *Replica) look(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	at, since, gathered := r.applied.Load(), time.Now(), time.Time{}
	for {
		asked := time.Now()
		once, cancel := context.WithTimeout(ctx, callTimeout)
		stream, err := r.e.js.Stream(once, logStream)
		cancel()
		if err == nil {
			// It may be less than before: a server that lost its end asks the others.
			r.known.Store(stream.CachedInfo().State.LastSeq)
			r.asked.Store(&asked)
		}
		if applied, known, _ := r.Position(); applied != at || applied == known {
			at, since = applied, asked
		} else if asked.Sub(since) > knownFor {
			r.again()
			since = asked
		}
		if r.leads() && asked.Sub(gathered) > gatherEvery {
			once, cancel := context.WithTimeout(ctx, callTimeout)
			if err := r.e.gather(once); err != nil {
				r.o.Log.Debug("the servers' leaders stay", "err", err)
			}
			cancel()
			gathered = asked
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (r *Replica) leads() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leading
}

// again has Run begin another turn.
func (r *Replica) again() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop != nil && !r.leading {
		r.o.Log.Warn("the log goes on and no entry arrives; it is read again")
		r.stop()
	}
}

// raise raises a number.
func raise(n *atomic.Uint64, to uint64) {
	for {
		if before := n.Load(); before >= to || n.CompareAndSwap(before, to) {
			return
		}
	}
}

// Lead makes the node the one that writes, with a term above all earlier ones, once the replica has the whole log. The
// error is ErrDeposed if the log has a later term.
func (r *Replica) Lead(ctx context.Context, term uint64) (*Store, error) {
	r.mu.Lock()
	if r.leading {
		r.mu.Unlock()
		return nil, errors.New("replica: it leads already")
	}
	r.leading = true
	if r.stop != nil {
		r.stop()
	}
	r.mu.Unlock()
	r.turn.Lock()
	s, err := r.lead(ctx, term)
	for end := time.Now().Add(patience); passes(err) && ctx.Err() == nil && time.Now().Before(end); {
		select {
		case <-ctx.Done():
		case <-time.After(retryEvery):
			s, err = r.lead(ctx, term)
		}
	}
	if err != nil {
		r.resume()
		return nil, fmt.Errorf("replica: %w", err)
	}
	return s, nil
}

// recall reads the term and the time of the last entry, if the replica was opened with it: the next one must not be
// before. An archive may have replaced it.
func (r *Replica) recall(ctx context.Context, stream jetstream.Stream) error {
	at := r.store.Place().Sequence
	if at == 0 || !r.last.IsZero() {
		return nil
	}
	m, err := stream.GetMsg(ctx, at)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err == nil && len(m.Data) >= entryHeader+chainSize && m.Data[0] <= entryVersion {
		e := header(m.Data)
		r.term, r.last = e.Term, e.Time
	}
	return err
}

// passes reports whether an error is that of servers that have no leader, or one that does not know of all entries yet.
func passes(err error) bool {
	var refused *jetstream.APIError
	return !errors.Is(err, ErrDeposed) && (errors.Is(err, errAhead) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoResponders) ||
		errors.As(err, &refused) && refused.Code == 503)
}

// resume lets Run go on. The caller must hold turn, which is released.
func (r *Replica) resume() {
	r.turn.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leading = false
	close(r.resumed)
	r.resumed = make(chan struct{})
}

func (r *Replica) lead(ctx context.Context, term uint64) (*Store, error) {
	once, cancel := context.WithTimeout(ctx, callTimeout/2)
	stream, err := r.e.js.Stream(once, logStream)
	cancel()
	if err != nil {
		return nil, err
	}
	s := newStore(r, term)
	for {
		if err := r.catchUp(ctx, stream); err != nil {
			return nil, err
		}
		if err := r.recall(ctx, stream); err != nil {
			return nil, err
		}
		if r.term >= term {
			return nil, fmt.Errorf("%w: the log has term %d, this one would have %d", ErrDeposed, r.term, term)
		}
		var ops []*store.Op
		if r.store.Place().Sequence == 0 {
			if epoch := r.store.Epoch(); epoch.ID != "" {
				return nil, ErrMigration
			}
			ops = append(ops, store.EpochOp(r.o.Now(), r.o.NewID, r.store.Epoch(), nil, "the cluster is new"))
		}
		err := s.begin(ctx, stream, ops)
		if errors.Is(err, ErrDeposed) { // another entry came first: read it
			continue
		}
		if err != nil {
			return nil, err
		}
		break
	}
	go s.publish()
	go s.apply()
	return s, nil
}
