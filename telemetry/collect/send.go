package collect

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/autosched/autosched/telemetry"
)

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
// not fit the buffer is dropped, the oldest first, and counted.
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
