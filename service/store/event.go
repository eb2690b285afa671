package store

import (
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/autosched/autosched/workload"
)

// Events are the only large data, so they have a compact binary form: integers
// as varints, strings with their length before them. Fields come in one fixed
// order; what was added later has a flag, so that older records still decode.

const (
	eventKeySize = 16
	flagHasLevel = 1
	flagAttained = 2       // the event has the attained service, after the placement
	flagDeadline = 8       // the job has a deadline, at the end
	flagRequest  = 16      // the job asks for more than GPUs, after the deadline
	flagNamed    = 4       // nodes of the placement have names; numbers before there was the flag
	flagPlaced   = 32      // the event names a partner or a pool, after the request
	flagActive   = 64      // the event is a snapshot with content, at the end
	flagOffer    = 128     // the event names an instance, a content hash or an epoch, after the content
	kindMore     = 128     // on the kind: what was added since follows at the end, after flags of its own
	moreAsks     = 1       // the job asks for more than its request has
	moreLost     = 2       // the job's progress was lost
	moreHeld     = 4       // the job may not start for a time
	moreIndexes  = 8       // numbers of the GPUs of the placement are known
	moreLabels   = 16      // the job has labels
	maxPlacement = 1 << 20 // nodes of a job; bounds what a decoder allocates
)

// eventKey sorts by time, then by order of arrival.
func eventKey(dst []byte, t time.Duration, seq uint64) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(t)^(1<<63))
	return binary.BigEndian.AppendUint64(dst, seq)
}

func appendEvent(dst []byte, e *workload.Event) []byte {
	str := func(s string) {
		dst = binary.AppendUvarint(dst, uint64(len(s)))
		dst = append(dst, s...)
	}
	num := func(v int64) { dst = binary.AppendVarint(dst, v) }
	flags := byte(0)
	if e.HasLevel {
		flags |= flagHasLevel
	}
	if e.HasAttained {
		flags |= flagAttained
	}
	if e.Job.Deadline != 0 {
		flags |= flagDeadline
	}
	if e.Job.Requested != (workload.Requested{}) {
		flags |= flagRequest
	}
	if e.SharesWith != "" || e.Pool != 0 {
		flags |= flagPlaced
	}
	if len(e.Placement) > 0 {
		flags |= flagNamed
	}
	if len(e.Active) > 0 {
		flags |= flagActive
	}
	offer := e.Instance != "" || e.Hash != "" || e.Epoch != (workload.Epoch{})
	if offer {
		flags |= flagOffer
	}
	q, more := e.Job.Request(), byte(0)
	if asksMore(&q) {
		more |= moreAsks
	}
	if e.Lost {
		more |= moreLost
	}
	if e.HoldUntil != 0 {
		more |= moreHeld
	}
	if slices.ContainsFunc(e.Placement, func(p workload.NodeShare) bool { return p.Indexes != "" }) {
		more |= moreIndexes
	}
	if e.Labels != "" {
		more |= moreLabels
	}
	kind := byte(e.Kind)
	if more != 0 {
		kind |= kindMore
	}
	dst = append(dst, kind, flags)
	num(int64(e.Time))
	str(e.ID)
	str(e.Job.ID)
	str(e.Job.User)
	str(e.Job.Tenant)
	str(e.Job.Key)
	str(e.Job.Model)
	num(int64(e.Job.GPUs))
	num(int64(e.Job.Status))
	num(int64(e.LevelAttained))
	num(int64(e.LeaseUntil))
	str(e.Node)
	num(int64(e.NodeGPUs))
	str(e.Revision)
	num(int64(len(e.Placement)))
	for _, p := range e.Placement {
		str(p.Node)
		num(int64(p.GPUs))
	}
	if e.HasAttained {
		num(int64(e.Attained))
	}
	if e.Job.Deadline != 0 {
		num(int64(e.Job.Deadline))
	}
	if flags&flagRequest != 0 {
		str(q.GPUModel)
		str(q.Partition)
		num(q.MilliCPUs)
		num(q.Memory)
		num(int64(q.TimeLimit))
	}
	if flags&flagPlaced != 0 {
		str(e.SharesWith)
		num(int64(e.Pool))
	}
	if flags&flagActive != 0 {
		num(int64(len(e.Active)))
		for i := range e.Active {
			num(int64(e.Active[i].Job.Submit))
			str(string(appendEvent(nil, &e.Active[i])))
		}
	}
	if offer {
		str(e.Instance)
		str(e.Hash)
		str(e.Epoch.ID)
		num(e.Epoch.Counter)
	}
	if more != 0 {
		dst = append(dst, more)
	}
	if more&moreAsks != 0 {
		num(int64(q.NodeCount))
		num(int64(q.Nice))
		num(q.Priority)
		str(q.QOS)
		str(q.Account)
		num(int64(q.Requeue))
		num(int64(q.HoldOff))
	}
	if more&moreHeld != 0 {
		num(int64(e.HoldUntil))
	}
	if more&moreIndexes != 0 {
		for _, p := range e.Placement {
			str(p.Indexes)
		}
	}
	if more&moreLabels != 0 {
		str(e.Labels)
	}
	return dst
}

// asksMore reports whether a request has fields that flagRequest does not write.
func asksMore(q *workload.Request) bool {
	return *q != workload.Request{GPUModel: q.GPUModel, Partition: q.Partition, MilliCPUs: q.MilliCPUs,
		Memory: q.Memory, TimeLimit: q.TimeLimit}
}

var errEventEncoding = errors.New("event does not decode")

func decodeEvent(b []byte) (workload.Event, error) {
	var e workload.Event
	if len(b) < 2 {
		return e, errEventEncoding
	}
	e.Kind, e.HasLevel = workload.EventKind(b[0]&^kindMore), b[1]&flagHasLevel != 0
	r := eventReader{b: b[2:]}
	e.Time = time.Duration(r.num())
	e.ID = r.str()
	e.Job.ID = r.str()
	e.Job.User = r.str()
	e.Job.Tenant = r.str()
	e.Job.Key = r.str()
	e.Job.Model = r.str()
	e.Job.GPUs = workload.MilliGPU(r.num())
	e.Job.Status = workload.Status(r.num())
	e.LevelAttained = time.Duration(r.num())
	e.LeaseUntil = time.Duration(r.num())
	e.Node = r.str()
	e.NodeGPUs = int(r.num())
	e.Revision = r.str()
	n := r.num()
	// A share takes at least two bytes, so a larger count is a lie.
	if n < 0 || n > maxPlacement || n > int64(len(r.b)/2) {
		return e, errEventEncoding
	}
	if n > 0 {
		e.Placement = make([]workload.NodeShare, n)
		for i := range e.Placement {
			if b[1]&flagNamed != 0 {
				e.Placement[i].Node = r.str()
			} else {
				e.Placement[i].Node = strconv.FormatInt(r.num(), 10)
			}
			e.Placement[i].GPUs = int(r.num())
		}
	}
	if b[1]&flagAttained != 0 {
		e.Attained, e.HasAttained = time.Duration(r.num()), true
	}
	if b[1]&flagDeadline != 0 {
		e.Job.Deadline = time.Duration(r.num())
	}
	var q workload.Request
	if b[1]&flagRequest != 0 {
		q = workload.Request{GPUModel: r.str(), Partition: r.str(), MilliCPUs: r.num(), Memory: r.num(),
			TimeLimit: time.Duration(r.num())}
	}
	if b[1]&flagPlaced != 0 {
		e.SharesWith, e.Pool = r.str(), int(r.num())
	}
	if b[1]&flagActive != 0 && !r.active(&e) {
		return e, errEventEncoding
	}
	if b[1]&flagOffer != 0 {
		e.Instance, e.Hash = r.str(), r.str()
		e.Epoch = workload.Epoch{ID: r.str(), Counter: r.num()}
	}
	if b[0]&kindMore != 0 {
		more := r.byte()
		if more&moreAsks != 0 {
			q.NodeCount, q.Nice, q.Priority = int32(r.num()), int32(r.num()), r.num()
			q.QOS, q.Account = r.str(), r.str()
			q.Requeue, q.HoldOff = workload.RequeueMode(r.num()), time.Duration(r.num())
		}
		if e.Lost = more&moreLost != 0; more&moreHeld != 0 {
			e.HoldUntil = time.Duration(r.num())
		}
		if more&moreIndexes != 0 {
			for i := range e.Placement {
				e.Placement[i].Indexes = r.str()
			}
		}
		if more&moreLabels != 0 {
			e.Labels = r.str()
		}
	}
	e.Job.Requested = q.Shared()
	if r.bad || len(r.b) != 0 {
		return e, errEventEncoding
	}
	return e, nil
}

// active reads the content of a snapshot.
func (r *eventReader) active(e *workload.Event) bool {
	n := r.num()
	// A part takes more than ten bytes, so a larger count is a lie.
	if n <= 0 || n > workload.MaxActive || n > int64(len(r.b)/10) {
		return false
	}
	e.Active = make([]workload.Event, n)
	for i := range e.Active {
		submit, part := r.num(), r.str()
		if len(part) < 2 || part[1]&flagActive != 0 { // snapshots have no snapshots
			return false
		}
		var err error
		if e.Active[i], err = decodeEvent([]byte(part)); err != nil {
			return false
		}
		e.Active[i].Job.Submit = time.Duration(submit)
	}
	return true
}

type eventReader struct {
	b   []byte
	bad bool
}

func (r *eventReader) num() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *eventReader) str() string {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > uint64(len(r.b)-n) {
		r.b, r.bad = nil, true
		return ""
	}
	s := string(r.b[n : n+int(v)])
	r.b = r.b[n+int(v):]
	return s
}

func (r *eventReader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	b := r.b[0]
	r.b = r.b[1:]
	return b
}
