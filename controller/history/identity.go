package history

import (
	"encoding/binary"
	"hash/maphash"
	"time"

	"github.com/autosched/autosched/workload"
)

// identity recognises a repeated event by its content and its minute.
type identity struct {
	content uint32
	at      int32
}

var hashSeed = maphash.MakeSeed()

// hashID stands for an id: of a million, two are alike with a probability of 3e-8.
func hashID(id string) uint64 { return maphash.String(hashSeed, id) }

func identify(e *workload.Event) identity { return identity{uint32(contentOf(e)), minutes(e.Time)} }

func minutes(at time.Duration) int32 { return int32(at / time.Minute) }

// contentOf hashes all of an event that is stored.
func contentOf(e *workload.Event) uint64 {
	j, flags := &e.Job, int64(0)
	if e.HasAttained {
		flags |= 1
	}
	if e.HasLevel {
		flags |= 2
	}
	var memory [512]byte // of most events
	b := memory[:0]
	for _, n := range [...]int64{int64(e.Kind), flags, int64(e.Time), int64(e.Attained), int64(e.LevelAttained),
		int64(e.LeaseUntil), int64(j.Deadline), int64(j.GPUs), int64(j.Status), int64(e.Pool), int64(e.NodeGPUs),
		e.Epoch.Counter, int64(len(e.Placement)), int64(len(e.Active))} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	for _, text := range [...]string{j.ID, j.User, j.Tenant, j.Key, j.Model, e.SharesWith, e.Node, e.Revision, e.Labels,
		e.Instance, e.Hash, e.Epoch.ID} {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	if j.Requested != (workload.Requested{}) { // its value: what it is shared by does not last
		b = binary.LittleEndian.AppendUint64(b, maphash.Comparable(hashSeed, j.Request()))
	}
	for i := range e.Placement {
		b = binary.LittleEndian.AppendUint64(b, maphash.Comparable(hashSeed, e.Placement[i]))
	}
	for i := range e.Active {
		b = binary.LittleEndian.AppendUint64(b, uint64(e.Active[i].Job.Submit))
		b = binary.LittleEndian.AppendUint64(b, contentOf(&e.Active[i]))
	}
	return maphash.Bytes(hashSeed, b)
}
