package store

import (
	"encoding/binary"
	"strconv"
	"time"

	"github.com/autosched/autosched/workload"
)

// Records of events of layout 1 have numbers as varints, texts with their length before them, and all fields in
// one fixed order. Fields that came later have flags.
const (
	flagHasLevel = 1
	flagAttained = 2   // the attained service follows the placement
	flagNamed    = 4   // nodes of the placement have names; before there was the flag, numbers
	flagDeadline = 8   // of the job
	flagRequest  = 16  // the job asks for more than GPUs
	flagPlaced   = 32  // a partner or a pool
	flagActive   = 64  // the content of a snapshot
	flagOffer    = 128 // an instance, a content hash or an epoch
	kindMore     = 128 // on the kind: more flags follow these fields
	moreAsks     = 1   // the rest of the request
	moreLost     = 2
	moreHeld     = 4
	moreIndexes  = 8
	moreLabels   = 16
	maxPlacement = 1 << 20 // nodes of a job; bounds the memory that is allocated
)

// decodeEvent1 reads a record of layout 1.
func decodeEvent1(b []byte) (workload.Event, error) {
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
		if e.Active[i], err = decodeEvent1([]byte(part)); err != nil {
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
