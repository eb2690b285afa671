package jet

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/autosched/autosched/service/store"
)

// entryVersion is the format of entries.
const entryVersion = 1

// entry is one of the log. An entry without ops begins a term.
type entry struct {
	Term   uint64
	Prev   uint64 // the sequence of the entry before it
	Time   time.Time
	Reader uint64 // the least reader version that loses nothing of the ops
	Ops    []*store.Op
	at     store.Place
}

// entryHeader is the version, term, previous sequence, time and reader version; the compressed ops follow, and last
// the hash over the entry and all before it.
const (
	entryHeader = 1 + 4*8
	chainSize   = 8
)

var (
	// errEntry is the error of an entry that no replica can apply.
	errEntry = errors.New("the entry is damaged: if every node says so, make a service of the replica of one by " +
		"autosched admin backup and restore, and move it to a new cluster")
	// errChain is the error of an entry that does not follow what the replica has applied.
	errChain = errors.New("the replica has entries that the log does not have, or the other way round")
)

var (
	encoder, _ = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	decoder, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<30))
)

// encode returns the entry with ops as JSON, and the chain with it.
func (e *entry) encode(ops []json.RawMessage, before uint64) (text []byte, chain uint64) {
	text = append(text, entryVersion)
	for _, n := range []uint64{e.Term, e.Prev, uint64(e.Time.UnixNano()), e.Reader} {
		text = binary.BigEndian.AppendUint64(text, n)
	}
	if len(ops) > 0 {
		all := []byte{'['}
		for i, op := range ops {
			if i > 0 {
				all = append(all, ',')
			}
			all = append(all, op...)
		}
		text = encoder.EncodeAll(append(all, ']'), text)
	}
	chain = chainOf(before, text)
	return binary.BigEndian.AppendUint64(text, chain), chain
}

func chainOf(before uint64, text []byte) uint64 {
	h := sha256.New()
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, before))
	_, _ = h.Write(text)
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// decode reads the entry of a sequence that comes after a place.
func decode(sequence uint64, text []byte, after store.Place) (e entry, err error) {
	if len(text) < entryHeader+chainSize {
		return e, fmt.Errorf("%w: %d bytes is too short", errEntry, len(text))
	}
	if text[0] > entryVersion {
		return e, fmt.Errorf("%w: an entry of format %d, this one knows up to %d", store.ErrNewer, text[0],
			entryVersion)
	}
	e = header(text)
	body := text[:len(text)-chainSize]
	chain := binary.BigEndian.Uint64(text[len(body):])
	if e.Prev != after.Sequence || chainOf(after.Chain, body) != chain {
		return e, errChain
	}
	e.at = store.Place{Sequence: sequence, Chain: chain}
	if err := store.Readable(e.Reader); err != nil {
		return e, err
	}
	if len(body) == entryHeader {
		return e, nil
	}
	ops, err := decoder.DecodeAll(body[entryHeader:], nil)
	if err == nil {
		err = json.Unmarshal(ops, &e.Ops)
	}
	if err == nil && slices.Contains(e.Ops, nil) {
		err = errors.New("an op is null")
	}
	if err != nil {
		return e, fmt.Errorf("%w: %w", errEntry, err)
	}
	return e, nil
}

// header reads an entry without its ops from a text that is long enough.
func header(text []byte) entry {
	number := func(i int) uint64 { return binary.BigEndian.Uint64(text[1+8*i:]) }
	return entry{Term: number(0), Prev: number(1), Time: time.Unix(0, int64(number(2))).UTC(), Reader: number(3)}
}

// chainIn is the chain with an entry, 0 of a text that is none.
func chainIn(text []byte) uint64 {
	if len(text) < entryHeader+chainSize {
		return 0
	}
	return binary.BigEndian.Uint64(text[len(text)-chainSize:])
}

// subject is that of an entry about a scheduler, or about several if it is "".
func subject(scheduler string) string {
	if scheduler == "" {
		scheduler = "_"
	}
	return logPrefix + strings.Map(func(r rune) rune {
		if strings.ContainsRune(" .*>\t\r\n", r) {
			return '_'
		}
		return r
	}, scheduler)
}
