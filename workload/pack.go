package workload

import (
	"encoding/binary"
	"math"
	"slices"
	"time"
)

// A packed record is the number of a job's events, then each: kind and flags, instant, id, and
// the fields that are set. Strings have their length before them; integers are varints.

const (
	packedJob = 1 << iota
	packedPlacement
	packedAttained
	packedLevel
	packedLease
	packedPlaced // a partner or a pool
	packedObserved
	packedRequest // of the job
	packedAsks    // and more of it
	packedHeld    // the progress was lost, or the job may not start for a time
	packedStartUp
)

// pack packs the events of a job that was submitted and ended, without ignored ones. It uses the memory of a packer.
func (r *record) pack(p *packer) {
	if r.open == nil || !r.submitted || !r.ended {
		return
	}
	p.b = p.b[:0]
	var last time.Duration
	events := slices.DeleteFunc(r.open.all(jobEvent.compare), func(e jobEvent) bool { return !r.counts(&e) })
	p.num(int64(len(events)))
	from, to := 0, 0 // of the id of the submission
	for i := range events {
		p.event(&events[i], last)
		last = events[i].time
		if to == 0 && events[i].describes() {
			from, to = p.idFrom, p.idTo
		}
	}
	r.packed, r.open = string(p.b), nil
	r.submitID = r.packed[from:to] // shares its memory
}

// counts reports whether an event of a job that was submitted and ended makes a difference.
func (r *record) counts(e *jobEvent) bool {
	return !e.repeats(&r.open.submission) && (e.time <= r.finish || e.describes())
}

// unpack returns a job's events. Events of a packed job are a copy, for the caller.
func (r *record) unpack(placements bool) *openRecord {
	return r.unpackInto(&openRecord{}, placements)
}

// unpackInto is unpack with memory to use for the copy.
func (r *record) unpackInto(out *openRecord, placements bool) *openRecord {
	if r.open != nil {
		return r.open
	}
	u := unpacker{s: r.packed, placements: placements}
	n := int(u.num())
	out.sorted, out.late, out.submission = slices.Grow(out.sorted[:0], n)[:n], nil, jobEvent{}
	clear(out.sorted)
	var last time.Duration
	for i := range out.sorted {
		e := &out.sorted[i]
		u.event(e, r.id, last)
		last = e.time
		if e.describes() && out.submission.job == nil {
			out.submission = *e
		}
	}
	return out
}

type packer struct {
	b            []byte
	idFrom, idTo int // of the id of the last event
}

func (p *packer) num(v int64) { p.b = binary.AppendVarint(p.b, v) }

func (p *packer) str(s string) {
	p.b = binary.AppendUvarint(p.b, uint64(len(s)))
	p.b = append(p.b, s...)
}

func (p *packer) event(e *jobEvent, last time.Duration) {
	flags := 0
	set := func(flag int, on bool) {
		if on {
			flags |= flag
		}
	}
	set(packedJob, e.job != nil)
	set(packedPlacement, len(e.placement) > 0)
	set(packedAttained, e.hasAttained)
	set(packedLevel, e.hasLevel)
	set(packedLease, e.leaseUntil != 0)
	set(packedPlaced, e.sharesWith != "" || e.pool != 0)
	set(packedObserved, e.observed)
	set(packedRequest, e.job != nil && (e.job.Request() != Request{} || e.job.Deadline != 0))
	request := Request{}
	if e.job != nil {
		request = e.job.Request()
	}
	set(packedAsks, request.more())
	set(packedHeld, e.lost || e.holdUntil != 0)
	set(packedStartUp, e.startUp != 0)
	p.b = append(p.b, byte(e.kind))
	p.b = binary.AppendUvarint(p.b, uint64(flags))
	p.num(int64(e.time - last))
	p.str(e.id)
	p.idFrom, p.idTo = len(p.b)-len(e.id), len(p.b)
	p.num(int64(e.gpus))
	p.b = append(p.b, byte(e.status))
	if e.job != nil {
		p.num(int64(e.time - e.job.Submit))
		p.str(e.job.User)
		p.str(e.job.Tenant)
		p.str(e.job.Key)
		p.str(e.job.Model)
	}
	if len(e.placement) > 0 {
		p.num(int64(len(e.placement)))
		for _, n := range e.placement {
			p.str(n.Node)
			p.num(int64(n.GPUs))
		}
	}
	if e.hasAttained {
		p.num(int64(e.attained))
	}
	if e.hasLevel {
		p.num(int64(e.levelAttained))
	}
	if e.leaseUntil != 0 {
		p.num(int64(e.leaseUntil))
	}
	if flags&packedPlaced != 0 {
		p.str(e.sharesWith)
		p.num(int64(e.pool))
	}
	if flags&packedRequest != 0 {
		q := request
		p.num(int64(e.job.Deadline))
		p.str(q.GPUModel)
		p.str(q.Partition)
		p.num(q.MilliCPUs)
		p.num(q.Memory)
		p.num(int64(q.TimeLimit))
	}
	if q := request; flags&packedAsks != 0 {
		p.num(int64(q.NodeCount))
		p.num(int64(q.Nice))
		p.num(q.Priority)
		p.str(q.QOS)
		p.str(q.Account)
		p.num(int64(q.Requeue))
		p.num(int64(q.HoldOff))
	}
	if flags&packedHeld != 0 {
		lost := int64(0)
		if e.lost {
			lost = 1
		}
		p.num(lost)
		p.num(int64(e.holdUntil))
	}
	if e.startUp != 0 {
		p.num(int64(e.startUp))
	}
}

// unpacker reads packed events. Strings share its memory.
type unpacker struct {
	s          string
	placements bool
}

func (u *unpacker) num() int64 {
	v := u.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

func (u *unpacker) uvarint() (v uint64) {
	for shift := 0; ; shift += 7 {
		b := u.byte()
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
}

func (u *unpacker) byte() byte {
	b := u.s[0]
	u.s = u.s[1:]
	return b
}

func (u *unpacker) str() string {
	n := u.uvarint()
	out := u.s[:n]
	u.s = u.s[n:]
	return out
}

func (u *unpacker) event(e *jobEvent, job string, last time.Duration) {
	e.kind = EventKind(u.byte())
	flags := int(u.uvarint())
	e.observed = flags&packedObserved != 0
	e.time = last + time.Duration(u.num())
	e.id = u.str()
	e.gpus = MilliGPU(u.num())
	e.status = Status(u.byte())
	if flags&packedJob != 0 {
		e.job = &Job{ID: job, GPUs: e.gpus, Status: e.status, Submit: e.time - time.Duration(u.num()),
			User: u.str(), Tenant: u.str(), Key: u.str(), Model: u.str()}
	}
	if flags&packedPlacement != 0 {
		n := int(u.num())
		if u.placements {
			e.placement = make([]NodeShare, 0, n)
		}
		for range n {
			share := NodeShare{Node: u.str(), GPUs: int(u.num())}
			if u.placements {
				e.placement = append(e.placement, share)
			}
		}
	}
	if flags&packedAttained != 0 {
		e.attained, e.hasAttained = time.Duration(u.num()), true
	}
	if flags&packedLevel != 0 {
		e.levelAttained, e.hasLevel = time.Duration(u.num()), true
	}
	if flags&packedLease != 0 {
		e.leaseUntil = time.Duration(u.num())
	}
	if flags&packedPlaced != 0 {
		e.sharesWith, e.pool = u.str(), int(u.num())
	}
	if flags&packedRequest != 0 {
		e.job.Deadline = time.Duration(u.num())
		q := Request{GPUModel: u.str(), Partition: u.str(), MilliCPUs: u.num(), Memory: u.num(),
			TimeLimit: time.Duration(u.num())}
		if flags&packedAsks != 0 {
			q.NodeCount, q.Nice, q.Priority = int32(u.num()), int32(u.num()), u.num()
			q.QOS, q.Account = u.str(), u.str()
			q.Requeue, q.HoldOff = RequeueMode(u.num()), time.Duration(u.num())
		}
		e.job.Requested = q.Shared()
	}
	if flags&packedHeld != 0 {
		e.lost, e.holdUntil = u.num() == 1, time.Duration(u.num())
	}
	if flags&packedStartUp != 0 {
		e.startUp = time.Duration(u.num())
	}
}

// last is the instant of the last event that counts, the first possible if there is none.
func (o *openRecord) last() time.Duration {
	all := o.all(jobEvent.compare)
	for i := len(all) - 1; i >= 0; i-- {
		if !all[i].repeats(&o.submission) {
			return all[i].time
		}
	}
	return math.MinInt64
}
