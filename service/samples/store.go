// Package samples keeps samples of GPUs, and how long training steps took, by scheduler, in files of an hour of the
// samples' own time: samples are appended to a log; once a later hour has begun, the log becomes one file without
// repeats, and means of five minutes and of an hour, which are kept for longer. A sample is identified by its GPU and
// time: one that is sent again counts once.
package samples

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/telemetry"
)

// Resolution is how fine samples are read.
type Resolution int

// The resolutions: as measured, and means of five minutes and of an hour.
const (
	Raw Resolution = iota
	Fine
	Coarse
	resolutions
)

// Step is the time between two samples of a GPU, 0 for Raw.
func (r Resolution) Step() time.Duration {
	return [resolutions]time.Duration{0, 5 * time.Minute, time.Hour}[r]
}

var names = [resolutions]string{"raw-", "5m-", "1h-"}

const (
	logName = "log-"
	layout  = "20060102T15"
)

// Options of a store; the zero value is right for a service.
type Options struct {
	// Keep is for how many hours that have samples each resolution is kept: a week, 90 days and 400 days if 0.
	Keep [resolutions]int
	// Iterations is how many training steps an hour of a scheduler may hold, repeats among them until it is
	// over: 3.6 million if 0.
	Iterations int
	Log        *slog.Logger // nothing is logged if nil
}

// ErrClosed is the error of a closed store, and of one that forgets the scheduler meanwhile.
var ErrClosed = errors.New("the store of samples is closed")

// Store is a directory of samples. It is safe for concurrent use.
type Store struct {
	dir string
	o   Options

	mu         sync.Mutex
	schedulers map[string]*log
	closed     bool
	wg         sync.WaitGroup
}

// Open opens a directory, which is made once there are samples, and goes on where a crash ended it.
func Open(dir string, o Options) (*Store, error) {
	for i, hours := range [resolutions]int{7 * 24, 90 * 24, 400 * 24} {
		if o.Keep[i] == 0 {
			o.Keep[i] = hours
		}
	}
	if o.Iterations == 0 {
		o.Iterations = 3_600_000
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{dir: dir, o: o, schedulers: map[string]*log{}}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		any := false
		for _, kind := range []string{logName, iterationLog} {
			hours, err := s.hours(e.Name(), kind)
			if err != nil {
				return nil, err
			}
			for _, hour := range hours {
				cut, err := repair(s.path(e.Name(), kind, hour))
				if err != nil {
					return nil, err
				}
				if cut > 0 {
					o.Log.Warn("telemetry that was not acknowledged is cut off", "scheduler", e.Name(), "hour", hour,
						"bytes", cut)
				}
				any = true
			}
		}
		if any {
			if _, err := s.log(e.Name()); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// Close waits for calls under way.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	logs := s.schedulers
	s.schedulers = nil
	s.mu.Unlock()
	for _, l := range logs {
		close(l.work)
	}
	s.wg.Wait()
	return nil
}

func (s *Store) path(scheduler, kind string, hour time.Time) string {
	return filepath.Join(s.dir, scheduler, kind+hour.Format(layout))
}

// hours returns the hours of the files of a kind, in order.
func (s *Store) hours(scheduler, kind string) ([]time.Time, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, scheduler))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []time.Time
	for _, e := range entries {
		if text, ok := strings.CutPrefix(e.Name(), kind); ok {
			if at, err := time.Parse(layout, text); err == nil {
				out = append(out, at)
			}
		}
	}
	return out, err // by name is by time
}

// hoursOf returns the hours of the files of several kinds, in order.
func (s *Store) hoursOf(scheduler string, kinds ...string) (all []time.Time, err error) {
	for _, kind := range kinds {
		hours, err := s.hours(scheduler, kind)
		if err != nil {
			return nil, err
		}
		all = append(all, hours...)
	}
	slices.SortFunc(all, time.Time.Compare)
	return slices.CompactFunc(all, time.Time.Equal), nil
}

func hourOf(at time.Duration) time.Time { return time.Unix(0, int64(at)).UTC().Truncate(time.Hour) }

// fileName is that of a file that is appended to.
type fileName struct {
	kind string
	hour time.Time
}

// batch has the frames that a call appends.
type batch struct {
	frames     map[fileName][]byte
	iterations map[time.Time]int // how many of them by hour
	done       chan error
}

// log appends to the logs of a scheduler: one goroutine, which syncs once for all calls that wait.
type log struct {
	store     *Store
	scheduler string
	work      chan *batch
	ended     chan struct{}
	newest    time.Time // hour of which there are samples
	// iterations are how many the hours hold that some were appended to, repeats among them.
	iterations map[time.Time]int
	advanced   time.Time // the newest when the hours before were last looked at
	// compacting is held while files of hours that are over are made, and while files are read.
	compacting sync.RWMutex
}

// log returns the log of a scheduler, and starts it.
func (s *Store) log(scheduler string) (*log, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if l := s.schedulers[scheduler]; l != nil {
		return l, nil
	}
	if err := os.MkdirAll(filepath.Join(s.dir, scheduler), 0o750); err != nil {
		return nil, err
	}
	for _, dir := range []string{s.dir, filepath.Dir(s.dir)} {
		if err := syncDir(dir); err != nil {
			return nil, err
		}
	}
	l := &log{store: s, scheduler: scheduler, work: make(chan *batch, 1024), ended: make(chan struct{}),
		iterations: map[time.Time]int{}}
	s.schedulers[scheduler] = l
	s.wg.Go(l.run)
	return l, nil
}

// Append stores samples: once it returns nil they are on disk. It may change their order. All are stored, or none is
// known to be.
func (s *Store) Append(ctx context.Context, scheduler string, all []telemetry.GPUSample) error {
	all = sorted(all)
	byHour := map[time.Time][]telemetry.GPUSample{}
	for i := 0; i < len(all); {
		hour, k := hourOf(all[i].Time), i+1
		for k < len(all) && hourOf(all[k].Time).Equal(hour) {
			k++
		}
		byHour[hour] = append(byHour[hour], all[i:k]...)
		i = k
	}
	frames := map[fileName][]byte{}
	for hour, part := range byHour {
		frames[fileName{logName, hour}] = appendFrame(nil, part)
	}
	return s.append(ctx, scheduler, &batch{frames: frames})
}

// append writes a batch: once it returns nil it is on disk.
func (s *Store) append(ctx context.Context, scheduler string, b *batch) error {
	if len(b.frames) == 0 {
		return nil
	}
	l, err := s.log(scheduler)
	if err != nil {
		return err
	}
	b.done = make(chan error, 1)
	if err := s.give(ctx, l, b); err != nil {
		return err
	}
	select {
	case err := <-b.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// give hands a batch over unless the store is closed.
func (s *Store) give(ctx context.Context, l *log, b *batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.schedulers[l.scheduler] != l {
		return ErrClosed
	}
	select {
	case l.work <- b:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run writes batches until the store is closed.
func (l *log) run() {
	defer close(l.ended)
	files := map[fileName]*os.File{}
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	for _, kind := range []string{logName, iterationLog} {
		if hours, err := l.store.hours(l.scheduler, kind); err == nil && len(hours) > 0 {
			if last := hours[len(hours)-1]; last.After(l.newest) {
				l.newest = last
			}
		}
	}
	l.advance(files)
	for b := range l.work {
		var all []*batch
		add := func(b *batch) {
			if err := l.admit(b); err != nil {
				b.done <- err
				return
			}
			all = append(all, b)
		}
		add(b)
	more:
		for len(all) < cap(l.work) {
			select {
			case b, open := <-l.work:
				if !open {
					break more
				}
				add(b)
			default:
				break more
			}
		}
		err := l.write(files, all)
		if err != nil {
			clear(l.iterations) // written ones are counted again
		}
		for _, b := range all {
			b.done <- err
		}
		l.advance(files)
	}
}

// most is how many logs are open at a time.
const most = 8

// write appends the frames of batches and syncs.
func (l *log) write(files map[fileName]*os.File, all []*batch) error {
	l.compacting.RLock()
	defer l.compacting.RUnlock()
	text := map[fileName][]byte{}
	for _, b := range all {
		for name, frame := range b.frames {
			text[name] = append(text[name], frame...)
		}
	}
	for name, frames := range text {
		f, err := l.open(files, name)
		if err != nil {
			return err
		}
		before, err := f.Seek(0, 2)
		if err != nil {
			return err
		}
		if _, err = f.Write(frames); err == nil {
			err = f.Sync()
		}
		if err != nil {
			// A part of a frame would hide the frames behind it.
			return errors.Join(err, f.Truncate(before))
		}
		if name.hour.After(l.newest) {
			l.newest = name.hour
		}
	}
	return nil
}

func (l *log) open(files map[fileName]*os.File, name fileName) (*os.File, error) {
	if f := files[name]; f != nil {
		return f, nil
	}
	if len(files) >= most {
		for other, f := range files {
			f.Close()
			delete(files, other)
		}
	}
	path := l.store.path(l.scheduler, name.kind, name.hour)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return nil, err
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	files[name] = f
	return f, nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// advance makes the files of the hours that are over, before the newest but one, and drops the oldest.
func (l *log) advance(files map[fileName]*os.File) {
	if !l.newest.After(l.advanced) {
		return
	}
	l.advanced = l.newest
	for kind, compact := range map[string]func(time.Time) error{logName: l.compact, iterationLog: l.compactIterations} {
		hours, err := l.store.hours(l.scheduler, kind)
		if err != nil {
			l.store.o.Log.Error("telemetry cannot be listed", "scheduler", l.scheduler, "err", err)
		}
		for _, hour := range hours {
			if !hour.Before(l.newest.Add(-time.Hour)) {
				break
			}
			if f := files[fileName{kind, hour}]; f != nil {
				f.Close()
				delete(files, fileName{kind, hour})
			}
			if err := compact(hour); err != nil {
				l.store.o.Log.Error("an hour of telemetry cannot be compacted", "scheduler", l.scheduler, "hour", hour,
					"err", err)
			}
		}
	}
	l.drop(files)
}

// part is the most samples that are held in memory at a time.
const part = 200_000

// compact makes the files of an hour of its log and of the samples that came before. A crash repeats it.
func (l *log) compact(hour time.Time) error {
	s := l.store
	logPath, raw := s.path(l.scheduler, logName, hour), s.path(l.scheduler, names[Raw], hour)
	sources := []string{raw, logPath}
	count := 0
	for _, path := range sources {
		err := samplesOf(path, func(telemetry.GPU) bool { return true },
			func(*telemetry.GPUSample) error { count++; return nil })
		if err != nil {
			return err
		}
	}
	var outs [resolutions]*atomicfile.File
	defer func() {
		for _, f := range outs {
			f.Abort()
		}
	}()
	for r := range resolutions {
		var err error
		if outs[r], err = atomicfile.CreatePlain(s.path(l.scheduler, names[r], hour)); err != nil {
			return err
		}
	}
	// Nodes are taken in parts, so that memory is bounded.
	parts := uint32(count/part + 1)
	var all []telemetry.GPUSample
	for p := range parts {
		all = all[:0]
		for _, path := range sources {
			err := samplesOf(path, func(g telemetry.GPU) bool {
				h := fnv.New32a()
				_, _ = h.Write([]byte(g.Node))
				return h.Sum32()%parts == p
			}, func(x *telemetry.GPUSample) error { all = append(all, *x); return nil })
			if err != nil {
				return err
			}
		}
		if all = sorted(all); len(all) == 0 {
			continue
		}
		for r := range resolutions {
			rows := all
			if r != Raw {
				rows = means(all, r.Step())
			}
			for chunk := range slices.Chunk(rows, 50_000) {
				if _, err := outs[r].Write(appendFrame(nil, chunk)); err != nil {
					return err
				}
			}
		}
	}
	return l.replace(logPath, outs[:]...)
}

// replace puts files in the place of a log.
func (l *log) replace(logPath string, outs ...*atomicfile.File) error {
	l.compacting.Lock()
	defer l.compacting.Unlock()
	for _, f := range outs {
		if err := f.Finish(nil); err != nil {
			return err
		}
	}
	if err := os.Remove(logPath); err != nil {
		return err
	}
	return syncDir(filepath.Dir(logPath))
}

// samplesOf reads a file, if there is one.
func samplesOf(path string, wanted func(telemetry.GPU) bool, f func(*telemetry.GPUSample) error) error {
	_, err := scan(path, func(payload []byte) error { return decode(payload, wanted, f) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// drop removes the files of the oldest hours.
func (l *log) drop(files map[fileName]*os.File) {
	keep := l.store.o.Keep
	for kind, most := range map[string]int{names[Raw]: keep[Raw], names[Fine]: keep[Fine], names[Coarse]: keep[Coarse],
		iterationRaw: keep[Raw], iterationLog: keep[Raw]} {
		hours, err := l.store.hours(l.scheduler, kind)
		if err != nil {
			continue
		}
		for _, hour := range hours[:max(0, len(hours)-most)] {
			if f := files[fileName{kind, hour}]; f != nil {
				f.Close()
				delete(files, fileName{kind, hour})
			}
			delete(l.iterations, hour) // counted again if it comes again
			l.compacting.Lock()
			err := os.Remove(l.store.path(l.scheduler, kind, hour))
			l.compacting.Unlock()
			if err != nil {
				l.store.o.Log.Error("old telemetry cannot be dropped", "scheduler", l.scheduler, "hour", hour,
					"err", err)
			}
		}
	}
}

// Query says which samples are read. Empty fields do not count.
type Query struct {
	From, To time.Duration // since the Unix epoch; To is the end, not included
	Node     string
	Index    *int
	Job      string
	Resolution
}

// Newest is the end of the last hour that has samples or iterations, since the Unix epoch; 0 if none has.
func (s *Store) Newest(scheduler string) (end time.Duration, err error) {
	hours, err := s.hoursOf(scheduler, names[Raw], logName, iterationRaw, iterationLog)
	if n := len(hours); n > 0 {
		end = time.Duration(hours[n-1].Add(time.Hour).UnixNano())
	}
	return end, err
}

// reading is the log whose compacting is held while files of a scheduler are read.
func (s *Store) reading(scheduler string) *log {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.schedulers[scheduler]; l != nil {
		return l
	}
	return &log{} // nothing is written
}

// Read calls f with samples hour by hour, within an hour by GPU and time. Means of hours that are not over are made of
// what there is. The sample is reused.
func (s *Store) Read(ctx context.Context, scheduler string, q Query, f func(*telemetry.GPUSample) error) error {
	l := s.reading(scheduler)
	all, err := s.hoursOf(scheduler, names[q.Resolution], logName)
	if err != nil {
		return err
	}
	for _, hour := range all {
		begin := time.Duration(hour.UnixNano())
		if begin+time.Hour <= q.From || q.To != 0 && begin >= q.To {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		rows, err := s.hour(l, scheduler, hour, &q)
		if err != nil {
			return err
		}
		for i := range rows {
			x := &rows[i]
			if x.Time < q.From || q.To != 0 && x.Time >= q.To || q.Job != "" && x.Job != q.Job {
				continue
			}
			if err := f(x); err != nil {
				return err
			}
		}
	}
	return nil
}

// hour reads the samples of an hour.
func (s *Store) hour(l *log, scheduler string, hour time.Time, q *Query) (out []telemetry.GPUSample, err error) {
	l.compacting.RLock()
	defer l.compacting.RUnlock()
	wanted := func(g telemetry.GPU) bool {
		return (q.Node == "" || g.Node == q.Node) && (q.Index == nil || g.Index == *q.Index)
	}
	keep := func(x *telemetry.GPUSample) error { out = append(out, *x); return nil }
	path := s.path(scheduler, logName, hour)
	_, err = os.Stat(path)
	switch open := err == nil; {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case !open:
		if err := samplesOf(s.path(scheduler, names[q.Resolution], hour), wanted, keep); err != nil {
			return nil, err
		}
		return sorted(out), nil
	}
	if err := samplesOf(s.path(scheduler, names[Raw], hour), wanted, keep); err != nil {
		return nil, err
	}
	// The end of a log is not acknowledged yet.
	if err := samplesOf(path, wanted, keep); err != nil && !errors.Is(err, ErrDamaged) {
		return nil, err
	}
	out = sorted(out)
	if q.Resolution != Raw {
		out = means(out, q.Step())
	}
	return out, nil
}

// Forget removes the samples of a scheduler.
func (s *Store) Forget(scheduler string) error {
	s.mu.Lock()
	l := s.schedulers[scheduler]
	delete(s.schedulers, scheduler)
	s.mu.Unlock()
	if l != nil {
		close(l.work)
		<-l.ended
	}
	return os.RemoveAll(filepath.Join(s.dir, scheduler))
}

// Size is the bytes of the files of a scheduler.
func (s *Store) Size(scheduler string) (n int64, err error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, scheduler))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return n, fmt.Errorf("%s: %w", e.Name(), err)
		}
		n += info.Size()
	}
	return n, err
}
