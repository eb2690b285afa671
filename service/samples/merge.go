package samples

import (
	"io"
	"os"
	"slices"

	"github.com/autosched/autosched/telemetry"
)

// source is a frame of samples in a file.
type source struct {
	file  *os.File
	at    int64 // of its body
	size  int
	first telemetry.GPU
	order int // among the sources of an hour: of samples that are there twice, the first counts
}

// partial is the frame without samples at the begin of a raw file of samples that came after the hour was dropped.
var partial = frame(nil, encode(nil, nil), nil)

// sources adds the frames of a file that may have samples of GPUs from one on, up to another unless it is nil. With
// whole, the end of the file is that of a frame, or damaged.
func (s *Store) sources(all []source, file *os.File, whole bool, from telemetry.GPU, to *telemetry.GPU) ([]source,
	scanned, error) {
	var payload []byte
	unread, late := 0, false
	got, err := scan(file, func(at int64, body []byte) error {
		first, last, known := spanOf(body)
		if known && (compareGPU(last, from) < 0 || to != nil && compareGPU(first, *to) > 0) {
			return nil
		}
		if !known {
			var err error
			if payload, err = payloadOf(payload, body); err != nil {
				unread += len(body)
				return nil
			}
			r := reader{rest: payload}
			if r.uvarint() == 0 && !r.failed {
				late = true
				return nil
			}
			first = r.gpu()
		}
		all = append(all, source{file, at + headSize, len(body), first, len(all)})
		return nil
	})
	if got.partial, got.damaged = late, got.damaged+int64(unread); whole && err == nil {
		info, statErr := file.Stat()
		if err = statErr; err == nil {
			got.damaged += info.Size() - got.end
		}
	}
	s.noteDamage(file.Name(), got.damaged)
	return all, got, err
}

// cursor reads the runs of a source, one of a GPU each.
type cursor struct {
	*source
	rest    reader
	left    uint64
	run     []telemetry.GPUSample // present one, empty at the end
	damaged bool                  // its content is not that of samples
}

func (s *source) open() (*cursor, error) {
	body := make([]byte, s.size)
	if _, err := s.file.ReadAt(body, s.at); err != nil && err != io.EOF {
		return nil, err
	}
	payload, err := payloadOf(nil, body)
	if err != nil {
		return &cursor{source: s, damaged: true}, nil
	}
	c := newCursor(payload)
	c.source = s
	return c, nil
}

// newCursor returns the cursor of a payload at its first run.
func newCursor(payload []byte) *cursor {
	c := &cursor{rest: reader{rest: payload}}
	c.left = c.rest.uvarint()
	c.next()
	return c
}

// next goes on to the next run. After a fault there is none.
func (c *cursor) next() {
	c.run = c.run[:0]
	if c.left == 0 || c.damaged {
		c.damaged = c.damaged || c.rest.failed || len(c.rest.rest) > 0
		return
	}
	c.left--
	run, err := c.rest.run(c.run)
	if c.damaged = err != nil; !c.damaged {
		c.run = run
	}
}

// merge calls f with the samples of each GPU, in order of time and without repeats. It reads a source when the GPUs get
// to it, and holds the samples of one GPU. It calls damaged with the file and the bytes of each damaged source.
func merge(all []source, damaged func(path string, bytes int64), f func([]telemetry.GPUSample) error) error {
	slices.SortStableFunc(all, func(a, b source) int { return compareGPU(a.first, b.first) })
	var open []*cursor // by order
	var one []telemetry.GPUSample
	for len(all) > 0 || len(open) > 0 {
		var gpu telemetry.GPU
		for i, c := range open {
			if g := c.run[0].GPU; i == 0 || compareGPU(g, gpu) < 0 {
				gpu = g
			}
		}
		if len(all) > 0 && (len(open) == 0 || compareGPU(all[0].first, gpu) <= 0) {
			c, err := all[0].open()
			if err != nil {
				return err
			}
			if all = all[1:]; len(c.run) > 0 {
				i, _ := slices.BinarySearchFunc(open, c, func(a, b *cursor) int { return a.order - b.order })
				open = slices.Insert(open, i, c)
			} else if c.damaged {
				damaged(c.file.Name(), int64(c.size))
			}
			continue
		}
		one = one[:0]
		ended := false
		for _, c := range open {
			for len(c.run) > 0 && c.run[0].GPU == gpu {
				one = append(one, c.run...)
				c.next()
			}
			ended = ended || len(c.run) == 0
		}
		if ended {
			open = slices.DeleteFunc(open, func(c *cursor) bool {
				if len(c.run) == 0 && c.damaged {
					damaged(c.file.Name(), int64(c.size))
				}
				return len(c.run) == 0
			})
		}
		if one = sorted(one); len(one) > 0 {
			if err := f(one); err != nil {
				return err
			}
		}
	}
	return nil
}
