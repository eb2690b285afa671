package simulator

import (
	"fmt"
	"math"
)

// kinds groups waiting jobs by the properties that decide whether they find a place (kindKey). A
// plan ranks many jobs of few kinds, so a fact about one job (that it
// fits, that it failed, why it waits) is remembered for its kind, and a walk over
// jobs reads one index per job instead of its record.
//
// Invariant: for a waiting job whose kind was asked for, of is its index in list,
// whose key equals the job's fields; a change of such a field resets it to unknown
// (change). rank orders kinds by decreasing width, with equal ranks for equal
// widths. A mark holds for the current epoch only: a new epoch begins where GPUs may
// have become free.
type kinds struct {
	list []kind
	at   map[kindKey]int32
	near [64]int32 // index of the key last found, by a hash of it
	// of is by job: the index of a waiting job's kind, ^ of it while it does not
	// wait, or unknown.
	of []int32
	// rank is by kind: the number of wider widths.
	rank   []int32
	widths int
	count  []int32 // scratch of sortWidest
	sorted []ID    // likewise

	asked []int32 // scratch of canHelp: kinds
	marks []mark  // by kind
	epoch uint32
}

type kind struct {
	key    kindKey
	jobs   int // that wait, with Options.Attribute only
	delays [causes]jobTime
}

type kindKey struct {
	gpus    int32
	members int32 // of a group, each of which has its own place
	tenant  int32
	pool    uint8
	relaxed bool
	where   uint16 // index in placer.constraints
	warmUp  bool   // submitted before Options.CountFrom
}

// mark has the epochs in which a kind was last asked for, and last failed to start.
type mark struct{ askedEpoch, failedEpoch uint32 }

const unknownKind = math.MinInt32

func (k *kinds) reset() {
	k.list, k.of, k.rank, k.marks, k.widths = k.list[:0], k.of[:0], k.rank[:0], k.marks[:0], 0
	k.epoch = 0
	clear(k.at)
}

func (k *kinds) copyFrom(src *kinds) {
	k.reset()
	k.list, k.of = append(k.list, src.list...), append(k.of, src.of...)
	k.rank, k.widths = append(k.rank, src.rank...), src.widths
	k.marks = resized(k.marks, len(k.list))
	clear(k.marks)
	if k.at == nil {
		k.at = map[kindKey]int32{}
	}
	for i := range k.list {
		k.at[k.list[i].key] = int32(i)
	}
}

func (k *kinds) add(key kindKey) int32 {
	if k.at == nil {
		k.at = map[kindKey]int32{}
	}
	i := int32(len(k.list))
	k.list, k.at[key], k.marks = append(k.list, kind{key: key}), i, append(k.marks, mark{})
	rank, known := int32(0), false
	for j, r := range k.rank {
		switch g := k.list[j].key.gpus; {
		case g == key.gpus:
			rank, known = r, true
		case g > key.gpus && !known:
			rank = max(rank, r+1)
		}
	}
	if !known {
		for j := range k.rank {
			if k.list[j].key.gpus < key.gpus {
				k.rank[j]++
			}
		}
		k.widths++
	}
	k.rank = append(k.rank, rank)
	return i
}

// kind is the index of a waiting job's kind. It panics if the job does not wait.
func (s *Sim) kind(id ID) int32 {
	if int(id) < len(s.kinds.of) && s.kinds.of[id] >= 0 {
		return s.kinds.of[id]
	}
	return s.findKind(id)
}

func (s *Sim) findKind(id ID) int32 {
	j, k := &s.jobs[id], &s.kinds
	if j.phase != pending {
		panic(fmt.Sprintf("simulator: policy starts job %d, which is not waiting", id))
	}
	for len(k.of) <= int(id) {
		k.of = append(k.of, unknownKind)
	}
	if k.of[id] != unknownKind {
		k.of[id] = ^k.of[id] // it waits again
		return k.of[id]
	}
	k.of[id] = k.find(kindKey{j.gpus, j.members, j.tenant, j.pool, j.relaxed, s.where(j), !s.counts(id)})
	return k.of[id]
}

// find is the index of a kind, which is added if it is new.
func (k *kinds) find(key kindKey) int32 {
	near := &k.near[uint32(key.gpus^key.tenant<<3)%uint32(len(k.near))]
	if i := *near; int(i) < len(k.list) && k.list[i].key == key {
		return i
	}
	i, ok := k.at[key]
	if !ok {
		i = k.add(key)
	}
	*near = i
	return i
}

// stopsWaiting notes that a job starts.
func (k *kinds) stopsWaiting(id ID) {
	if int(id) < len(k.of) && k.of[id] >= 0 {
		k.of[id] = ^k.of[id]
	}
}

// change applies a change that may move a job to another kind.
func (s *Sim) change(id ID, change func(j *job)) {
	j := &s.jobs[id]
	counted := s.opts.Attribute && j.phase == pending
	if counted {
		s.kinds.list[s.kind(id)].jobs--
	}
	change(j)
	if int(id) < len(s.kinds.of) {
		s.kinds.of[id] = unknownKind
	}
	if counted {
		s.kinds.list[s.kind(id)].jobs++
	}
}

// sortWidest sorts waiting jobs by decreasing width, stably.
func (s *Sim) sortWidest(jobs []ID) {
	if len(jobs) < 2 {
		return
	}
	for _, id := range jobs {
		s.kind(id)
	}
	k := &s.kinds
	k.count, k.sorted = resized(k.count, k.widths), append(k.sorted[:0], jobs...)
	clear(k.count)
	for _, id := range jobs {
		k.count[k.rank[k.of[id]]]++
	}
	from := int32(0)
	for r, n := range k.count {
		k.count[r] = from
		from += n
	}
	for _, id := range k.sorted {
		r := k.rank[k.of[id]]
		jobs[k.count[r]] = id
		k.count[r]++
	}
}
