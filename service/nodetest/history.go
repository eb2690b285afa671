package nodetest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Offer is the configuration on offer to a scheduler: a register whose revisions go up.
type Offer struct {
	Revision int64
	Hash     string // of the content
}

// Kind is a kind of operation on an offer.
type Kind string

const (
	// Read returned Op.Offer.
	Read Kind = "read"
	// Set made Op.Offer the offer, in place of revision Op.From if that is not 0.
	Set Kind = "set"
	// Conflict was refused because the offer was not revision Op.From.
	Conflict Kind = "conflict"
)

// Op is an operation whose outcome is known. Instants are on one monotonic clock.
type Op struct {
	Client int
	Kind   Kind
	From   int64
	Offer
	Call, Return time.Duration
}

// Made is a revision as the service lists it in the end.
type Made struct {
	Offer
	// Token is unique to the request that made the revision; empty if no request did.
	Token string
	// Offered reports whether it was ever on offer.
	Offered bool
}

// History has the answers that clients got about one scheduler. Its methods may be called from several goroutines.
type History struct {
	name  string
	wrong *Violations

	mu     sync.Mutex
	ops    []Op
	hashes map[int64]string        // of every revision ever seen
	seen   map[int64]time.Duration // when a revision was first seen on offer
	acked  map[string]int64        // revision by token of an acknowledged request, 0 if the answer has none
	asked  map[string]setting      // by token
	denied map[string]bool         // tokens of requests that were refused
	old    []oldRead
}

// setting is a request to set the offer.
type setting struct {
	client       int
	from         int64
	call, answer time.Duration // answer is 0 if there was none
}

// NewHistory returns an empty history.
func NewHistory(name string, wrong *Violations) *History {
	return &History{name: name, wrong: wrong, hashes: map[int64]string{}, seen: map[int64]time.Duration{},
		acked: map[string]int64{}, asked: map[string]setting{}, denied: map[string]bool{}}
}

// oldRead is a read whose answer may lack what was acknowledged within a bound before its call.
type oldRead struct {
	Offer
	call, most time.Duration
}

// Old records a read from a node's copy that began at an instant. It may be older than the state then by at most most;
// it may also have a change that no caller has an answer to yet.
func (h *History) Old(o Offer, call, most time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sees(o, "read of a copy")
	h.old = append(h.old, oldRead{o, call, most})
}

// checkOld compares the reads of copies with what others had seen before.
func (h *History) checkOld() {
	type sight struct {
		at       time.Duration
		revision int64 // the newest by then
	}
	var sights []sight
	for revision, at := range h.seen {
		sights = append(sights, sight{at, revision})
	}
	slices.SortFunc(sights, func(a, b sight) int { return cmp.Compare(a.at, b.at) })
	for i := 1; i < len(sights); i++ {
		sights[i].revision = max(sights[i].revision, sights[i-1].revision)
	}
	for _, r := range h.old {
		n, _ := slices.BinarySearchFunc(sights, r.call-r.most, func(s sight, at time.Duration) int {
			return cmp.Compare(s.at, at)
		})
		if n > 0 && sights[n-1].revision > r.Revision {
			h.wrong.Addf("%s: a read at %v has revision %d, and %d was on offer %v before, more than %v", h.name,
				r.call.Round(time.Millisecond), r.Revision, sights[n-1].revision,
				(r.call - sights[n-1].at).Round(time.Millisecond), r.most)
		}
	}
	h.old = nil
}

// Sees records that a revision has a content; it must never have another one.
func (h *History) Sees(o Offer, where string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sees(o, where)
}

func (h *History) sees(o Offer, where string) {
	if had, ok := h.hashes[o.Revision]; ok && had != o.Hash {
		h.wrong.Addf("%s: revision %d has content %.8s in a %s and had %.8s", h.name, o.Revision, o.Hash, where, had)
		return
	}
	h.hashes[o.Revision] = o.Hash
}

// Add records an operation. A Set without a token is its own proof; others go through Asks and Answered.
func (h *History) Add(op Op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if op.Kind != Conflict {
		h.sees(op.Offer, string(op.Kind))
		if at, ok := h.seen[op.Revision]; !ok || op.Return < at {
			h.seen[op.Revision] = op.Return
		}
	}
	h.ops = append(h.ops, op)
}

// Watched records that a watch delivered a revision at an instant.
func (h *History) Watched(o Offer, at time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sees(o, "watch")
	if had, ok := h.seen[o.Revision]; !ok || at < had {
		h.seen[o.Revision] = at
	}
}

// Asks records that a client begins to set the offer in place of revision from, by a request that the token marks.
func (h *History) Asks(client int, token string, from int64, call time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked[token] = setting{client: client, from: from, call: call}
}

// Answered records that the request was acknowledged. revision is 0 if the answer does not say which it made.
func (h *History) Answered(token string, revision int64, at time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.asked[token]
	s.answer = at
	h.asked[token] = s
	h.acked[token] = revision
	if had, ok := h.seen[revision]; revision > 0 && (!ok || at < had) {
		h.seen[revision] = at
	}
}

// Refused records that the request was refused because the offer was not its revision from.
func (h *History) Refused(token string, at time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.asked[token]
	delete(h.asked, token)
	h.denied[token] = true
	h.ops = append(h.ops, Op{Client: s.client, Kind: Conflict, From: s.from, Call: s.call, Return: at})
}

// never is after every instant of a history.
const never = time.Duration(math.MaxInt64)

// Check compares the history with the revisions that the service lists while no client changes anything, from first,
// the offer at the instant began. Later calls begin anew. Reads may be older than the state at their call by at most
// stale. ops is the number of operations.
func (h *History) Check(first Offer, began, stale time.Duration, list []Made) (ops int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	tokens, listed := map[string]int64{}, map[int64]bool{}
	for _, m := range list {
		h.sees(m.Offer, "list")
		listed[m.Revision] = true
		if m.Token == "" {
			continue
		}
		if had, twice := tokens[m.Token]; twice {
			h.wrong.Addf("%s: one request made revisions %d and %d", h.name, had, m.Revision)
		}
		tokens[m.Token] = m.Revision
		if h.denied[m.Token] {
			h.wrong.Addf("%s: a request was refused and made revision %d", h.name, m.Revision)
		}
	}
	for revision := range h.hashes {
		if !listed[revision] {
			h.wrong.Addf("%s: revision %d was seen and is not listed", h.name, revision)
		}
	}
	for token, revision := range h.acked {
		made, ok := tokens[token]
		switch {
		case !ok:
			h.wrong.Addf("%s: an acknowledged request made no revision", h.name)
		case revision != 0 && revision != made:
			h.wrong.Addf("%s: a request made revision %d and was answered with %d", h.name, made, revision)
		}
	}
	own := map[int64]bool{}
	for _, op := range h.ops {
		if op.Kind == Set {
			own[op.Revision] = true
		}
	}
	for _, m := range list {
		if m.Revision <= first.Revision || !m.Offered || own[m.Revision] {
			continue
		}
		// The service or a request without an answer offered it, some time before it was seen.
		op := Op{Client: -1, Kind: Set, Offer: m.Offer, Call: began, Return: never}
		if at, ok := h.seen[m.Revision]; ok {
			op.Return = at
		}
		if s, ok := h.asked[m.Token]; ok {
			op.Client, op.From, op.Call = s.client, s.from, s.call
			if s.answer != 0 {
				op.Return = min(op.Return, s.answer)
			}
		}
		h.ops = append(h.ops, op)
	}
	ops = len(h.ops)
	if err := linearizable(first, h.ops, stale, follows(first, list)); err != nil {
		h.wrong.Addf("%s: %v", h.name, err)
	}
	h.checkOld()
	h.ops, h.acked, h.asked = nil, map[string]int64{}, map[string]setting{}
	return ops
}

// follows returns, by revision, the one on offer before it.
func follows(first Offer, list []Made) map[int64]int64 {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Made) int { return cmp.Compare(a.Revision, b.Revision) })
	before, last := map[int64]int64{}, first.Revision
	for _, m := range list {
		if m.Offered && m.Revision > last {
			before[m.Revision], last = last, m.Revision
		}
	}
	return before
}

// linearizable returns an error if no order of the operations that agrees with their instants explains their outcomes.
// before has, by revision, the one that it replaced.
func linearizable(first Offer, ops []Op, stale time.Duration, before map[int64]int64) error {
	model := porcupine.Model{
		Init: func() any { return first },
		Step: func(state, input, _ any) (bool, any) {
			now, op := state.(Offer), input.(Op)
			switch op.Kind {
			case Read:
				return now == op.Offer, now
			case Conflict:
				return now.Revision != op.From, now
			default:
				after, listed := before[op.Revision]
				return listed && after == now.Revision && (op.From == 0 || op.From == after), op.Offer
			}
		},
	}
	history := make([]porcupine.Operation, len(ops))
	for i, op := range ops {
		call := op.Call
		if op.Kind == Read {
			call -= stale
		}
		history[i] = porcupine.Operation{ClientId: max(op.Client, 0), Input: op, Call: int64(call),
			Return: int64(max(op.Return, call))}
	}
	switch porcupine.CheckOperationsTimeout(model, history, time.Minute) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("no order of %d operations was found or excluded within a minute", len(ops))
	}
	return fmt.Errorf("no order of %d operations explains them: %s", len(ops), shortest(model, history))
}

// shortest describes the last operations of the shortest prefix, by return, that no order explains.
func shortest(model porcupine.Model, history []porcupine.Operation) string {
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return int(min(1, max(-1, a.Return-b.Return))) })
	// Operations that had not returned when the prefix ended may be in it or not; as pending ones they can only help.
	wrong := func(n int) bool {
		prefix := slices.Clone(history[:n])
		for _, later := range history[n:] {
			if n > 0 && later.Call < history[n-1].Return && later.Input.(Op).Kind == Set {
				later.Return = math.MaxInt64
				prefix = append(prefix, later)
			}
		}
		return porcupine.CheckOperationsTimeout(model, prefix, 10*time.Second) == porcupine.Illegal
	}
	low, high := 0, len(history) // high is wrong
	for low+1 < high {
		if mid := (low + high) / 2; wrong(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	text := ""
	for _, o := range history[max(0, high-5):high] {
		op := o.Input.(Op)
		text += fmt.Sprintf(" [client %d %s from %d revision %d %.8s, %v to %v]", op.Client, op.Kind, op.From,
			op.Revision, op.Hash, op.Call.Round(time.Millisecond), op.Return.Round(time.Millisecond))
	}
	return text
}

// Watch checks one watch through all its streams: its revisions go up, and it has the last one in the end.
type Watch struct {
	Name  string
	wrong *Violations
	token string // from which the next stream resumes; of the one goroutine that watches

	mu   sync.Mutex
	last int64
}

// NewWatch returns a watch that has seen nothing.
func NewWatch(name string, wrong *Violations) *Watch { return &Watch{Name: name, wrong: wrong} }

// Sees records a revision that the watch delivered.
func (w *Watch) Sees(revision int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if revision <= w.last {
		w.wrong.Addf("%s went from revision %d to %d", w.Name, w.last, revision)
	}
	w.last = revision
}

// Last is the newest revision delivered.
func (w *Watch) Last() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}
