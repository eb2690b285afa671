package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

var errLost = errors.New("no answer")

// memory is a bucket whose answers a test may lose, and whose readers may be behind.
type memory struct {
	mu       sync.Mutex
	values   map[string][]byte
	old      map[string][]byte // the former values
	versions map[string]uint64
	before   map[string]uint64
	next     uint64
	fault    func(write bool) (refused, lost, stale bool) // nil for none
}

func newMemory() *memory {
	return &memory{values: map[string][]byte{}, versions: map[string]uint64{}, old: map[string][]byte{},
		before: map[string]uint64{}}
}

func (m *memory) faults(write bool) (refused, lost, stale bool) {
	if m.fault == nil {
		return false, false, false
	}
	return m.fault(write)
}

func (m *memory) Get(_ context.Context, key string) ([]byte, uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	refused, _, stale := m.faults(false)
	switch {
	case refused:
		return nil, 0, errLost
	case m.versions[key] == 0:
		return nil, 0, ErrNone
	case stale && m.before[key] > 0:
		return m.old[key], m.before[key], nil
	}
	return m.values[key], m.versions[key], nil
}

func (m *memory) Put(_ context.Context, key string, value []byte, after uint64) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	refused, lost, _ := m.faults(true)
	if refused {
		return 0, errLost
	}
	if m.versions[key] != after {
		return 0, ErrChanged
	}
	m.next++
	m.old[key], m.before[key] = m.values[key], m.versions[key]
	m.values[key], m.versions[key] = value, m.next
	if lost {
		return 0, errLost
	}
	return m.next, nil
}

// member is a lease with a clock of its own.
type member struct {
	*lease
	now time.Duration
}

func newMember(b Bucket, name string) *member {
	m := &member{}
	m.lease = &lease{bucket: b, length: 10 * time.Second, elapsed: func() time.Duration { return m.now },
		log: slog.New(slog.DiscardHandler), own: record{Node: name, Process: name + "-1", Address: name + ":1"}}
	return m
}

func step(able bool, all ...*member) {
	for _, m := range all {
		m.now += 500 * time.Millisecond
		m.step(context.Background(), able)
	}
}

// TestTakeover: a leader that is gone is followed within the length of the lease and a look, one that gives the lease
// back at once; a paused one answers nothing when it goes on.
func TestTakeover(t *testing.T) {
	b := newMemory()
	one, two := newMember(b, "a"), newMember(b, "b")
	step(true, one, two)
	first := one.held()
	if first == 0 || two.held() != 0 {
		t.Fatalf("terms %d and %d", first, two.held())
	}
	for range 100 {
		step(true, one, two)
	}
	if r, _, ok := two.leader(); one.held() != first || !ok || r.Node != "a" || r.Term != first {
		t.Fatalf("after 50 s: term %d of %d; b sees %+v, %v", one.held(), first, r, ok)
	}
	took := 0
	for ; two.held() == 0 && took < 100; took++ { // a is paused
		step(true, two)
	}
	if took > 21 {
		t.Errorf("it took %d looks of half a second", took)
	}
	if took < 14 { // a was renewed up to 3 s ago
		t.Errorf("b led after %d looks, while a might answer", took)
	}
	one.now += 30 * time.Second
	if one.valid() {
		t.Error("a answers after a pause")
	}
	step(true, one, two)
	second := two.held()
	if one.held() != 0 || second <= first {
		t.Errorf("terms %d and %d after %d", one.held(), second, first)
	}
	two.release(context.Background())
	step(true, one)
	if one.held() <= second {
		t.Errorf("the lease was given back, and a has term %d after %d", one.held(), second)
	}
}

// TestUnable: a node that cannot lead does not take the lease.
func TestUnable(t *testing.T) {
	b := newMemory()
	one := newMember(b, "a")
	for range 100 {
		step(false, one)
	}
	if one.held() != 0 {
		t.Error("it leads")
	}
	step(true, one)
	if one.held() == 0 {
		t.Error("it does not lead")
	}
}

// TestLostAnswers: a renewal or a taking whose answer was lost counts from its first attempt.
func TestLostAnswers(t *testing.T) {
	b := newMemory()
	lose := false
	b.fault = func(write bool) (bool, bool, bool) { return false, write && lose, false }
	one := newMember(b, "a")
	lose = true
	step(true, one)
	if one.held() != 0 {
		t.Fatal("it leads without an answer")
	}
	lose = false
	step(true, one)
	term := one.held()
	if term == 0 || one.until != one.tried+6*time.Second {
		t.Fatalf("term %d until %v, tried %v", term, one.until, one.tried)
	}
	lose = true
	for range 8 {
		step(true, one)
	}
	lose = false
	for range 8 {
		step(true, one)
	}
	if one.held() != term {
		t.Errorf("term %d, want %d", one.held(), term)
	}
}

// TestOneLeader: of three nodes with faults of every kind at most one may answer at any time, whose term is the highest
// of all before; clocks differ in what they show.
func TestOneLeader(t *testing.T) {
	for seed := range uint64(200) {
		draw := rand.New(rand.NewPCG(seed, 1))
		b := newMemory()
		bad := false
		b.fault = func(bool) (bool, bool, bool) {
			if !bad {
				return false, false, false
			}
			return draw.IntN(3) == 0, draw.IntN(4) == 0, draw.IntN(3) == 0
		}
		var all []*member
		for i := range 3 {
			m := newMember(b, fmt.Sprint("n", i))
			m.now = time.Duration(draw.IntN(1e6)) * time.Second
			all = append(all, m)
		}
		var highest uint64
		terms, paused := 0, make([]int, len(all))
		for i := range 2000 {
			bad = i/100%2 == 1
			leading := 0
			for j, m := range all {
				m.now += 500 * time.Millisecond
				if paused[j] > 0 { // no step, but it may be about to answer
					paused[j]--
				} else {
					m.step(context.Background(), draw.IntN(10) > 0)
					if draw.IntN(200) == 0 {
						paused[j] = draw.IntN(60)
					}
					if draw.IntN(300) == 0 {
						m.release(context.Background())
					}
				}
				if term := m.held(); term > 0 {
					leading++
					if term < highest {
						t.Fatalf("seed %d, step %d: n%d answers in term %d after %d", seed, i, j, term, highest)
					}
					if term > highest {
						highest, terms = term, terms+1
					}
				}
			}
			if leading > 1 {
				t.Fatalf("seed %d, step %d: %d nodes answer", seed, i, leading)
			}
		}
		if terms < 5 {
			t.Errorf("seed %d: %d terms", seed, terms)
		}
	}
}
