package collect

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
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
	xids := map[telemetry.GPU]int{} // an answer that breaks off is forgotten whole
	maps.Copy(xids, e.xids)
	opts := telemetry.Options{Format: "prometheus", At: at, Node: s.opts.Node, Xids: xids}
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
	if err != nil {
		e.out = e.out[:0]
		return err
	}
	e.xids = xids
	switch {
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

// Sink takes samples. An error means that the same samples are sent again later; a sink
// must accept samples that it has already.
type Sink interface {
	Send(ctx context.Context, samples []telemetry.GPUSample) error
}

// Constants of a Sender.
const (
	// DefaultBuffer holds half a day of eight GPUs at the default period: 5 MB.
	DefaultBuffer = 25_000
	batch         = 2_000 // samples sent at a time
	sendTime      = 10 * time.Second
	firstPause    = time.Second // after a failure; it doubles
	longestPause  = time.Minute
)

// Sender sends samples to a sink in order, and keeps them until they are sent. Samples that do
// not fit the buffer are dropped, the oldest first, and counted.
type Sender struct {
	sink   Sink
	notify func(text string)

	mu      sync.Mutex
	ring    []telemetry.GPUSample
	first   uint64 // number of the oldest sample kept
	next    uint64 // number of the next one
	dropped uint64
	sent    uint64
	more    chan struct{} // holds a token if there is something to send
}

// NewSender keeps at most size samples; notify may be nil.
func NewSender(sink Sink, size int, notify func(text string)) *Sender {
	if notify == nil {
		notify = func(string) {}
	}
	return &Sender{sink: sink, notify: notify, ring: make([]telemetry.GPUSample, size), more: make(chan struct{}, 1)}
}

// Add takes samples to be sent. It never waits.
func (s *Sender) Add(samples []telemetry.GPUSample) {
	s.mu.Lock()
	for i := range samples {
		if s.next-s.first == uint64(len(s.ring)) {
			s.first++
			s.dropped++
		}
		s.ring[s.next%uint64(len(s.ring))] = samples[i]
		s.next++
	}
	s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// Counts are how many samples were sent, dropped, and still wait.
func (s *Sender) Counts() (sent, dropped, waiting uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent, s.dropped, s.next - s.first
}

// take copies the oldest samples into dst, and gives the number of the one after them.
func (s *Sender) take(dst []telemetry.GPUSample) ([]telemetry.GPUSample, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := min(s.next, s.first+batch)
	for n := s.first; n < end; n++ {
		dst = append(dst, s.ring[n%uint64(len(s.ring))])
	}
	return dst, end
}

// done drops samples that were sent. Some may have been dropped meanwhile.
func (s *Sender) done(end uint64, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent += uint64(n)
	s.first = max(s.first, end)
}

// Run sends until the context ends, and then once more for the rest, for as long as a
// send may take.
func (s *Sender) Run(ctx context.Context) {
	var buffer []telemetry.GPUSample
	pause, failing := firstPause, false
	for {
		select {
		case <-s.more:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTime)
			defer cancel()
			for s.send(last, &buffer) == nil && len(buffer) > 0 {
				continue
			}
			return
		}
		err := s.send(ctx, &buffer)
		for err == nil && len(buffer) == batch {
			err = s.send(ctx, &buffer)
		}
		if err == nil {
			if failing {
				_, dropped, _ := s.Counts()
				s.notify(fmt.Sprintf("samples are sent again; %d were dropped so far", dropped))
			}
			pause, failing = firstPause, false
			continue
		}
		if !failing && ctx.Err() == nil {
			s.notify(fmt.Sprintf("samples cannot be sent, trying again: %v", err))
		}
		failing = true
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		pause = min(2*pause, longestPause)
		select {
		case s.more <- struct{}{}:
		default:
		}
	}
}

// send sends a batch of the oldest samples, which the buffer then holds.
func (s *Sender) send(ctx context.Context, buffer *[]telemetry.GPUSample) error {
	all, end := s.take((*buffer)[:0])
	if *buffer = all; len(all) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	if err := s.sink.Send(ctx, all); err != nil {
		return err
	}
	s.done(end, len(all))
	return nil
}

// Run samples at every tick and sends, until the context or the ticks end.
func Run(ctx context.Context, c Source, s *Sender, ticks <-chan time.Time) {
	ctx, stop := context.WithCancel(ctx)
	var sending sync.WaitGroup
	sending.Go(func() { s.Run(ctx) })
	defer sending.Wait()
	defer stop()
	defer c.Close(context.WithoutCancel(ctx))
	for {
		select {
		case <-ctx.Done():
			return
		case at, more := <-ticks:
			if !more {
				return
			}
			if samples := c.Round(ctx, time.Duration(at.UnixMilli())*time.Millisecond); ctx.Err() == nil {
				s.Add(samples)
			}
		}
	}
}
