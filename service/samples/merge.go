package samples

import (
	"io"
	"slices"

	"github.com/autosched/autosched/telemetry"
)

// source is a frame of samples in a file.
type source struct {
	file  io.ReaderAt
	at    int64 // of its body
	size  int
	first telemetry.GPU
	order int // among the sources of an hour: of samples that are there twice, the first counts
}

// sources adds the frames of a file that may have samples of GPUs from one on, up to another unless it is nil.
func sources(all []source, file io.ReaderAt, from telemetry.GPU, to *telemetry.GPU) ([]source, scanned, error) {
	var payload []byte
	s, err := scan(file, func(at int64, body []byte) error {
		first, last, known := spanOf(body)
		if known && (compareGPU(last, from) < 0 || to != nil && compareGPU(first, *to) > 0) {
			return nil
		}
		if !known {
			var err error
			if payload, err = payloadOf(payload, body); err != nil {
				return nil // nothing of it can be read
			}
			r := reader{rest: payload}
			if r.uvarint(); !r.failed {
				first = r.gpu()
			}
		}
		all = append(all, source{file, at + headSize, len(body), first, len(all)})
		return nil
	})
	return all, s, err
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
// to it, and holds the samples of one GPU. It returns the number of damaged sources.
func merge(all []source, f func([]telemetry.GPUSample) error) (damaged int, err error) {
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
				return damaged, err
			}
			if all = all[1:]; len(c.run) > 0 {
				i, _ := slices.BinarySearchFunc(open, c, func(a, b *cursor) int { return a.order - b.order })
				open = slices.Insert(open, i, c)
			} else if c.damaged {
				damaged++
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
					damaged++
				}
				return len(c.run) == 0
			})
		}
		if one = sorted(one); len(one) > 0 {
			if err := f(one); err != nil {
				return damaged, err
			}
		}
	}
	return damaged, nil
}
