package jet

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/autosched/autosched/service/store"
)

// The bounds of a batch.
const (
	atHand      = 128     // entries
	batchText   = 1 << 20 // in bytes, of entries as they are stored
	batchEvents = 5 * maxEvents
	batchTime   = 100 * time.Millisecond // until all are read
)

// batch is entries that follow each other and are applied together, so that a replica that lacks many syncs once for
// several.
type batch struct {
	entries []*entry
	text    int
	events  int
	began   time.Time
}

// after is the place of the last entry, or that of the replica.
func (b *batch) after(r *Replica) store.Place {
	if n := len(b.entries); n > 0 {
		return b.entries[n-1].at
	}
	return r.store.Place()
}

// add reads the next entry.
func (b *batch) add(r *Replica, sequence uint64, text []byte) error {
	if len(b.entries) == 0 {
		b.began = time.Now()
	}
	after := b.after(r)
	e, err := decode(sequence, text, after)
	if err != nil {
		return fmt.Errorf("entry %d after %d: %w", sequence, after.Sequence, err)
	}
	b.entries, b.text = append(b.entries, &e), b.text+len(text)
	for _, o := range e.Ops {
		b.events += o.Count()
	}
	return nil
}

func (b *batch) full() bool {
	return len(b.entries) >= atHand || b.text >= batchText || b.events >= batchEvents ||
		len(b.entries) > 0 && time.Since(b.began) >= batchTime
}

// take reads the entry that arrives next and those that have arrived by then: it waits for no other. Entries before
// an error are in the batch.
func (b *batch) take(ctx context.Context, r *Replica, arrived <-chan arrival) error {
	var one arrival
	select {
	case one = <-arrived:
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		if one.err != nil {
			return one.err
		}
		raise(&r.known, one.known)
		if one.sequence > b.after(r).Sequence {
			if err := b.add(r, one.sequence, one.text); err != nil {
				return err
			}
		}
		if ctx.Err() != nil || b.full() {
			return ctx.Err()
		}
		select {
		case one = <-arrived:
		default:
			return nil
		}
	}
}

// arrival is an entry that a consumer delivered, or why it delivers none.
type arrival struct {
	sequence, known uint64
	text            []byte
	err             error
}

// arrive passes entries on as a consumer delivers them, until it fails or the context ends.
func arrive(ctx context.Context, messages jetstream.MessagesContext, to chan<- arrival) {
	for {
		var one arrival
		m, err := messages.Next()
		if err == nil {
			var meta *jetstream.MsgMetadata
			if meta, err = m.Metadata(); err == nil {
				one = arrival{sequence: meta.Sequence.Stream, known: meta.Sequence.Stream + meta.NumPending,
					text: m.Data()}
			}
		}
		one.err = err
		select {
		case to <- one:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}
