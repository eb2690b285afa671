// Package samples keeps samples of GPUs, and how long training steps took, by scheduler, in files of an hour of the
// samples' own time: samples are appended to a log; once a later hour has begun, the log becomes one file without
// repeats, and means of five minutes and of an hour, which are kept for longer. A sample is identified by its GPU and
// time: one that is sent again counts once.
package samples

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	// Room calls a function that writes, unless the disk is full; nil calls it always.
	Room func(write func() error) error
	// Damaged receives the number of files with damage when one is found; nil receives nothing.
	Damaged func(files int)
	Log     *slog.Logger // nothing is logged if nil
}

// ErrClosed is the error of a closed store, and of one that forgets the scheduler meanwhile.
var ErrClosed = errors.New("the store of samples is closed")

// Store is a directory of samples. It is safe for concurrent use.
type Store struct {
	dir string
	o   Options

	// mu is held while nothing waits, reads or writes.
	mu         sync.Mutex
	schedulers map[string]*log
	closed     bool
	wg         sync.WaitGroup

	turn    chan struct{} // has room for the scheduler whose hours are compacted
	damaged sync.Map      // paths of files with damage
}

// Open returns the store of a directory, which is made once there are samples. It reads nothing: files that cannot be
// read concern their hour alone.
func Open(dir string, o Options) (*Store, error) {
	for i, hours := range [resolutions]int{7 * 24, 90 * 24, 400 * 24} {
		if o.Keep[i] == 0 {
			o.Keep[i] = hours
		}
	}
	if o.Iterations == 0 {
		o.Iterations = 3_600_000
	}
	if o.Room == nil {
		o.Room = func(write func() error) error { return write() }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Store{dir: dir, o: o, schedulers: map[string]*log{}, turn: make(chan struct{}, 1)}, nil
}

// Close refuses calls, and waits for the writes under way and for the hours that are over.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	logs := s.schedulers
	s.schedulers = nil
	s.mu.Unlock()
	for _, l := range logs {
		close(l.closed)
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
	latest     time.Duration     // time of the latest sample
	done       chan error
}

// log appends to the logs of a scheduler: one goroutine, which syncs once for all calls that wait. Hours that are over
// are compacted beside it.
type log struct {
	store     *Store
	scheduler string
	work      chan *batch
	between   chan func(files map[fileName]*os.File) // run between two writes
	closed    chan struct{}                          // no batch is taken any more
	dropped   chan struct{}                          // compaction ends at once
	ended     chan struct{}
	latest    atomic.Int64 // time of the latest sample since the start

	// Of the goroutine.
	newest     time.Time         // hour of which there are samples
	advanced   time.Time         // the newest when the hours before were last looked at
	iterations map[time.Time]int // of hours that were appended to, repeats among them
	repaired   map[fileName]bool // logs that were opened
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
	l := &log{store: s, scheduler: scheduler, work: make(chan *batch, 1024),
		between: make(chan func(map[fileName]*os.File)), closed: make(chan struct{}), dropped: make(chan struct{}),
		ended: make(chan struct{}), iterations: map[time.Time]int{}, repaired: map[fileName]bool{}}
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
	b := &batch{frames: map[fileName][]byte{}}
	for hour, part := range byHour {
		b.frames[fileName{logName, hour}] = appendFrames(nil, part)
	}
	for i := range all {
		b.latest = max(b.latest, all[i].Time)
	}
	return s.append(ctx, scheduler, b)
}

// Latest is the time of the latest sample, since the Unix epoch; 0 if there is none. After a restart it is the end of
// its hour until the next sample.
func (s *Store) Latest(scheduler string) (time.Duration, error) {
	s.mu.Lock()
	l := s.schedulers[scheduler]
	s.mu.Unlock()
	if l != nil {
		if at := time.Duration(l.latest.Load()); at > 0 {
			return at, nil
		}
	}
	return s.Newest(scheduler)
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
	select {
	case l.work <- b:
	case <-l.closed:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-b.done:
		return err
	case <-l.ended:
		select {
		case err := <-b.done:
			return err
		default:
			return ErrClosed
		}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run writes batches until the log is closed.
func (l *log) run() {
	defer close(l.ended)
	files := map[fileName]*os.File{}
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	dir := filepath.Join(l.store.dir, l.scheduler)
	left, _ := fs.Glob(os.DirFS(dir), ".*") // unfinished files of a crash
	for _, name := range left {
		_ = os.Remove(filepath.Join(dir, name))
	}
	for _, kind := range []string{logName, iterationLog} {
		if hours, err := l.store.hours(l.scheduler, kind); err == nil && len(hours) > 0 {
			if last := hours[len(hours)-1]; last.After(l.newest) {
				l.newest = last
			}
		}
	}
	var advanced chan struct{} // closed once the hours that are over are compacted; nil while none is
	for closed := l.closed; ; {
		if advanced == nil && l.newest.After(l.advanced) {
			l.advanced, advanced = l.newest, make(chan struct{})
			go func(newest time.Time, ends chan struct{}) {
				defer close(ends)
				l.advance(newest)
			}(l.newest, advanced)
		}
		if closed == nil && advanced == nil {
			return
		}
		select {
		case b := <-l.work:
			l.take(files, b)
		case f := <-l.between:
			f(files)
		case <-advanced:
			advanced = nil
		case <-closed:
			closed = nil
		}
	}
}

// take writes a batch and those that wait.
func (l *log) take(files map[fileName]*os.File, b *batch) {
	var all []*batch
	for {
		if err := l.admit(b); err != nil {
			b.done <- err
		} else {
			all = append(all, b)
		}
		if len(all) < cap(l.work) {
			select {
			case b = <-l.work:
				continue
			default:
			}
		}
		break
	}
	err := l.store.o.Room(func() error { return l.write(files, all) })
	if err != nil {
		clear(l.iterations) // written ones are counted again
	}
	for _, b := range all {
		if err == nil {
			l.latest.Store(max(l.latest.Load(), int64(b.latest)))
		}
		b.done <- err
	}
}

// do calls a function between two writes.
func (l *log) do(f func(files map[fileName]*os.File) error) error {
	done := make(chan error, 1)
	l.between <- func(files map[fileName]*os.File) { done <- f(files) }
	return <-done
}

// most is how many logs are open at a time.
const most = 8

// write appends the frames of batches and syncs.
func (l *log) write(files map[fileName]*os.File, all []*batch) error {
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
		for other := range files {
			release(files, other)
		}
	}
	path := l.store.path(l.scheduler, name.kind, name.hour)
	dir := filepath.Dir(path)
	dirs := []string{dir}
	if _, err := os.Stat(dir); err != nil {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return nil, err
		}
		dirs = append(dirs, l.store.dir, filepath.Dir(l.store.dir))
	}
	if !l.repaired[name] {
		if err := repair(path); err != nil {
			return nil, err
		}
		l.repaired[name] = true
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		if err := atomicfile.SyncDir(dir); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	files[name] = f
	return f, nil
}

// release closes a file.
func release(files map[fileName]*os.File, name fileName) {
	if f := files[name]; f != nil {
		f.Close()
		delete(files, name)
	}
}

// hourFiles are the open files of an hour's samples.
type hourFiles struct {
	files []*os.File
	all   []source
	ends  int64 // of the frames of the log
	// partial says that samples of the hour were dropped, but its means are kept.
	partial bool
}

func (h *hourFiles) close() {
	for _, f := range h.files {
		f.Close()
	}
}

// openHour opens the raw file and the log of an hour, and finds the frames of some GPUs. The log comes first: it is
// removed after the raw file has its samples.
func (s *Store) openHour(scheduler string, hour time.Time, from telemetry.GPU, to *telemetry.GPU) (h hourFiles,
	err error) {
	var files [2]*os.File
	for i, kind := range []string{logName, names[Raw]} {
		files[i], err = os.Open(s.path(scheduler, kind, hour))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			h.close()
			return h, err
		}
		if err == nil {
			h.files = append(h.files, files[i])
		}
	}
	for i := len(files) - 1; i >= 0; i-- { // what was there first counts
		if files[i] == nil {
			continue
		}
		var got scanned
		if h.all, got, err = s.sources(h.all, files[i], i == 1, from, to); err != nil {
			h.close()
			return h, err
		}
		h.ends = got.end // that of the log, which is the last, if there is one
		h.partial = h.partial || got.partial
	}
	for _, r := range []Resolution{Fine, Coarse} {
		if files[1] == nil && !h.partial {
			_, err := os.Stat(s.path(scheduler, names[r], hour))
			h.partial = err == nil
		}
	}
	return h, nil
}

// noteDamage notes a file with bytes that cannot be read. Other frames of the file can be.
func (s *Store) noteDamage(path string, bytes int64) {
	if bytes == 0 {
		return
	}
	if _, known := s.damaged.Swap(path, true); !known {
		s.o.Log.Error("telemetry is damaged: what cannot be read is left out", "file", path, "bytes", bytes)
		if s.o.Damaged != nil {
			s.o.Damaged(len(s.Damaged()))
		}
	}
}

// Damaged returns the paths of the files in which damage was found since the start, in order.
func (s *Store) Damaged() (paths []string) {
	s.damaged.Range(func(path, _ any) bool {
		paths = append(paths, path.(string))
		return true
	})
	slices.Sort(paths)
	return paths
}

// Query says which samples are read. Empty fields do not count.
type Query struct {
	From, To time.Duration // since the Unix epoch; To is the end, not included
	Node     string
	Index    *int
	Job      string
	// After is the sample before the first in the order of Read; nil for the first of all.
	After *telemetry.GPUSample
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

// Read calls f with samples hour by hour, within an hour by GPU and time. Means of hours that are not over are made of
// what there is. The sample is reused. Damaged frames are left out.
func (s *Store) Read(ctx context.Context, scheduler string, q Query, f func(*telemetry.GPUSample) error) error {
	all, err := s.hoursOf(scheduler, names[q.Resolution], logName)
	if err != nil {
		return err
	}
	for _, hour := range all {
		begin := time.Duration(hour.UnixNano())
		if begin+time.Hour <= q.From || q.To != 0 && begin >= q.To ||
			q.After != nil && begin+time.Hour <= q.After.Time {
			continue
		}
		if err := s.readHour(ctx, scheduler, hour, &q, f); err != nil {
			return err
		}
	}
	return nil
}

// readHour reads the samples of an hour.
func (s *Store) readHour(ctx context.Context, scheduler string, hour time.Time, q *Query,
	f func(*telemetry.GPUSample) error) error {
	from, to := telemetry.GPU{Node: q.Node, Index: math.MinInt, Instance: math.MinInt}, (*telemetry.GPU)(nil)
	if q.Node != "" {
		to = &telemetry.GPU{Node: q.Node, Index: math.MaxInt, Instance: math.MaxInt}
	}
	after := q.After
	if after != nil && !hourOf(after.Time).Equal(hour) {
		after = nil
	}
	if after != nil && compareGPU(after.GPU, from) > 0 {
		from = after.GPU
	}
	path, step := s.path(scheduler, logName, hour), q.Resolution.Step()
	var h hourFiles
	_, err := os.Stat(path)
	if step == 0 || !errors.Is(err, fs.ErrNotExist) { // means without a log are whole
		if h, err = s.openHour(scheduler, hour, from, to); err != nil {
			return err
		}
		defer h.close()
	}
	logged := len(h.files) > 0 && h.files[0].Name() == path
	if step > 0 && (h.partial || !logged) {
		file, err := os.Open(s.path(scheduler, names[q.Resolution], hour))
		switch {
		case err == nil:
			defer file.Close()
			if h.all, _, err = s.sources(nil, file, true, from, to); err != nil {
				return err
			}
			step = 0 // they are means
		case !errors.Is(err, fs.ErrNotExist):
			return err
		case !logged:
			return nil
		}
	}
	return merge(h.all, s.noteDamage, func(one []telemetry.GPUSample) error {
		g := one[0].GPU
		if compareGPU(g, from) < 0 || q.Node != "" && g.Node != q.Node || q.Index != nil && g.Index != *q.Index {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if step > 0 {
			one = means(one, step)
		}
		for i := range one {
			x := &one[i]
			if x.Time < q.From || q.To != 0 && x.Time >= q.To || q.Job != "" && x.Job != q.Job ||
				after != nil && Order(x, after) <= 0 {
				continue
			}
			if err := f(x); err != nil {
				return err
			}
		}
		return nil
	})
}

// Forget removes the samples of a scheduler.
func (s *Store) Forget(scheduler string) error {
	s.mu.Lock()
	l := s.schedulers[scheduler]
	delete(s.schedulers, scheduler)
	s.mu.Unlock()
	if l != nil {
		close(l.dropped)
		close(l.closed)
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
