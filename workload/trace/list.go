package trace

import (
	"hash/maphash"
	"strings"

	"github.com/autosched/autosched/workload"
)

// list grows without moving its elements, but for its first chunk, so that a
// long trace is not copied again and again while it is read.
type list[T any] struct {
	chunks [][]T
	n      int
}

const (
	chunkBits = 12
	chunkLen  = 1 << chunkBits
)

func (l *list[T]) len() int { return l.n }

// at is valid until the next append.
func (l *list[T]) at(i int) *T { return &l.chunks[i>>chunkBits][i&(chunkLen-1)] }

func (l *list[T]) append(v T) {
	k := l.n >> chunkBits
	if k == len(l.chunks) {
		var chunk []T // the first one grows as it must
		if k > 0 {
			chunk = make([]T, 0, chunkLen)
		}
		l.chunks = append(l.chunks, chunk)
	}
	l.chunks[k] = append(l.chunks[k], v)
	l.n++
}

// slice copies the list into one piece and empties it.
func (l *list[T]) slice() []T {
	if len(l.chunks) == 1 {
		v := l.chunks[0]
		*l = list[T]{}
		return v
	}
	v := make([]T, 0, l.n)
	for i, c := range l.chunks {
		v = append(v, c...)
		l.chunks[i] = nil
	}
	*l = list[T]{}
	return v
}

// names numbers texts from 0 in order of first appearance. It is a hash table
// that takes 8 bytes for a text beside the text itself. The hash is seeded at
// random: no input can be made to collide.
type names struct {
	slots []nameSlot // a power of two of them
	n     int
	texts list[string]
	// text is that of a number, where others keep the texts.
	text func(number int32) string
	seed maphash.Seed
}

type nameSlot struct {
	hash uint32
	at   int32 // number plus one; 0 is a free slot
}

// find returns the number of a text, or -1, and the hash to give to add.
func (n *names) find(text string) (number int32, hash uint32) {
	if n.slots == nil {
		n.seed, n.slots = maphash.MakeSeed(), make([]nameSlot, 256)
	}
	hash = uint32(maphash.String(n.seed, text))
	mask := uint32(len(n.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		switch s := n.slots[i]; {
		case s.at == 0:
			return -1, hash
		case s.hash == hash && n.is(s.at-1, text):
			return s.at - 1, hash
		}
	}
}

// add numbers a text that find did not find.
func (n *names) add(text string, hash uint32) int32 {
	n.reserve(n.n + 1)
	if n.text == nil {
		n.texts.append(text)
	}
	n.n++
	n.put(nameSlot{hash, int32(n.n)})
	return int32(n.n - 1)
}

// reserve makes room for a number of texts in all.
func (n *names) reserve(texts int) {
	size := len(n.slots)
	for 4*texts > 3*size {
		size *= 2
	}
	if size == len(n.slots) {
		return
	}
	old := n.slots
	n.slots = make([]nameSlot, size)
	for _, s := range old {
		if s.at != 0 {
			n.put(s)
		}
	}
}

func (n *names) is(number int32, text string) bool {
	if n.text != nil {
		return n.text(number) == text
	}
	return *n.texts.at(int(number)) == text
}

func (n *names) put(s nameSlot) {
	mask := uint32(len(n.slots) - 1)
	i := s.hash & mask
	for n.slots[i].at != 0 {
		i = (i + 1) & mask
	}
	n.slots[i] = s
}

// arena holds many short texts in few pieces of memory.
type arena struct{ b strings.Builder }

func (a *arena) own(text []byte) string {
	if a.b.Cap()-a.b.Len() < len(text) {
		a.b = strings.Builder{}
		a.b.Grow(max(len(text), 32<<10))
	}
	n := a.b.Len()
	a.b.Write(text)
	return a.b.String()[n:]
}

// jobList holds jobs in one piece of memory of about the right size once there are
// many of them: a copy of millions would double their memory.
type jobList struct {
	few   list[workload.Job]
	whole []workload.Job
}

// manyJobs is how many jobs say how long the rows of a trace are.
const manyJobs = 1 << 16

// append adds a job. expected is how many there may be in all, 0 if it is not known.
func (l *jobList) append(j *workload.Job, expected int) {
	if l.whole != nil {
		l.whole = append(l.whole, *j)
		return
	}
	l.few.append(*j)
	if n := l.few.len(); n == manyJobs && expected > n {
		l.whole = append(make([]workload.Job, 0, expected), l.few.slice()...)
	}
}

func (l *jobList) len() int {
	if l.whole != nil {
		return len(l.whole)
	}
	return l.few.len()
}

func (l *jobList) at(i int) *workload.Job {
	if l.whole != nil {
		return &l.whole[i]
	}
	return l.few.at(i)
}

// slice empties the list into one piece.
func (l *jobList) slice() []workload.Job {
	v := l.whole
	if v == nil {
		v = l.few.slice()
	}
	*l = jobList{}
	return v
}
