package collect

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/autosched/autosched/telemetry"
)

// Source samples GPUs.
type Source interface {
	// Round samples once. The samples are valid until the next round.
	Round(ctx context.Context, at time.Duration) []telemetry.GPUSample
	Close(ctx context.Context)
}

// Bounds of a scrape: an exporter of eight GPUs answers with 100 KiB in a fraction of a second.
const (
	scrapeTime = 5 * time.Second
	maxScrape  = 32 << 20
)

// Scraper is a source that asks exporters with DCGM's metrics, such as dcgm-exporter. An
// exporter that does not answer gives no samples: its GPUs are unknown, not lost.
type Scraper struct {
	client    *http.Client
	opts      Options
	exporters []exporter
	out       []telemetry.GPUSample
}

type exporter struct {
	url  string
	name string // the URL without a password
	// xids are the last errors of its GPUs, which DCGM repeats; nil before the first answer,
	// whose errors may be old.
	xids    map[telemetry.GPU]int
	out     []telemetry.GPUSample
	err     error
	trouble string // as reported last
}

// NewScraper asks the exporters at URLs; opts.Node is the node of GPUs of which they name
// none, and opts.Job is not used.
func NewScraper(urls []string, opts Options) *Scraper {
	s := &Scraper{client: &http.Client{Timeout: scrapeTime, Transport: &http.Transport{MaxIdleConnsPerHost: 1}},
		opts: opts}
	for _, text := range urls {
		e := exporter{url: text, name: text}
		if u, err := url.Parse(text); err == nil {
			e.name = u.Redacted()
		}
		s.exporters = append(s.exporters, e)
	}
	return s
}

// Round implements Source. It takes as long as the slowest exporter, and no longer than a
// scrape may.
func (s *Scraper) Round(ctx context.Context, at time.Duration) []telemetry.GPUSample {
	var asked sync.WaitGroup
	for i := range s.exporters {
		e := &s.exporters[i]
		asked.Go(func() { e.err = s.scrape(ctx, e, at) })
	}
	asked.Wait()
	s.out = s.out[:0]
	for i := range s.exporters {
		e := &s.exporters[i]
		s.out = append(s.out, e.out...)
		trouble := ""
		if e.err != nil {
			trouble = e.err.Error()
		}
		if trouble == e.trouble || ctx.Err() != nil {
			continue
		}
		if e.trouble = trouble; trouble == "" {
			trouble = e.name + " answers"
		}
		if s.opts.Notify != nil {
			s.opts.Notify(trouble)
		}
	}
	return s.out
}

func (s *Scraper) scrape(ctx context.Context, e *exporter, at time.Duration) error {
	e.out = e.out[:0]
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url, nil)
	if err != nil {
		return err
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", e.name, answer.Status)
	}
	first := e.xids == nil
	if first {
		e.xids = map[telemetry.GPU]int{}
	}
	opts := telemetry.Options{Format: "prometheus", At: at, Node: s.opts.Node, Xids: e.xids}
	stats, err := telemetry.Read(ctx, io.LimitReader(answer.Body, maxScrape), e.name, opts,
		func(x *telemetry.GPUSample) error {
			if first && x.Xid != 0 {
				x.Forget(telemetry.Xid)
			}
			if !strings.ContainsAny(x.Node+x.UUID+x.Job, "\r\n") {
				e.out = append(e.out, *x)
			}
			return nil
		})
	switch {
	case err != nil:
		e.out = e.out[:0]
		return err
	case stats.Rejected > 0:
		return fmt.Errorf("%d lines rejected, first %s", stats.Rejected, stats.First[0])
	case len(e.out) == 0:
		return fmt.Errorf("%s: has no GPU", e.name)
	}
	return nil
}

// Close implements Source.
func (s *Scraper) Close(context.Context) { s.client.CloseIdleConnections() }

// CSV is a sink that writes the project's CSV.
type CSV struct {
	out    io.Writer
	close  func() error
	file   *os.File // nil if out cannot be cut
	begun  bool     // the header is written
	buffer bytes.Buffer
}

// NewCSV writes to a stream.
func NewCSV(out io.Writer) *CSV { return &CSV{out: out, close: func() error { return nil }} }

// OpenCSV appends to a file, which is made if it is missing. One with other columns is an error.
func OpenCSV(path string) (*CSV, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	c := &CSV{out: f, close: f.Close, begun: info.Size() > 0}
	if c.begun && info.Mode().IsRegular() {
		if err := sameColumns(path); err != nil {
			f.Close()
			return nil, err
		}
	}
	if info.Mode().IsRegular() {
		c.file = f
	}
	return c, nil
}

// sameColumns reports a file whose header is another than that of the rows to come.
func sameColumns(path string) error {
	var header bytes.Buffer
	w := telemetry.NewWriter(&header)
	if err := cmp.Or(w.Header(), w.Flush()); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	have := make([]byte, header.Len())
	if n, _ := io.ReadFull(f, have); !bytes.Equal(have[:n], header.Bytes()) {
		return fmt.Errorf("%s has other columns than %s: name another file", path, bytes.TrimSpace(header.Bytes()))
	}
	return nil
}

// Close closes the file.
func (c *CSV) Close() error { return c.close() }

// Send implements Sink. A row is written whole or not at all.
func (c *CSV) Send(_ context.Context, samples []telemetry.GPUSample) error {
	c.buffer.Reset()
	w := telemetry.NewWriter(&c.buffer)
	if c.begun {
		w.SkipHeader()
	}
	for i := range samples {
		if err := w.Write(&samples[i]); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	var size int64
	if c.file != nil {
		info, err := c.file.Stat()
		if err != nil {
			return err
		}
		size = info.Size()
	}
	if _, err := c.out.Write(c.buffer.Bytes()); err != nil {
		if c.file != nil {
			if cut := c.file.Truncate(size); cut != nil {
				return fmt.Errorf("%w; what was written of it stays: %w", err, cut)
			}
		}
		return err
	}
	c.begun = true
	return nil
}
