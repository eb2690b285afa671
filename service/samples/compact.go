package samples

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/telemetry"
)

// advance makes the files of the hours that are over, before the newest but one, and drops the oldest. One scheduler at
// a time does: it takes processor time and memory.
func (l *log) advance(newest time.Time) {
	select {
	case l.store.turn <- struct{}{}:
	case <-l.dropped:
		return
	}
	defer func() { <-l.store.turn }()
	for kind, compact := range map[string]func(time.Time) error{logName: l.compact, iterationLog: l.compactIterations} {
		hours, err := l.store.hours(l.scheduler, kind)
		if err != nil {
			l.store.o.Log.Error("telemetry cannot be listed", "scheduler", l.scheduler, "err", err)
		}
		for _, hour := range hours {
			if !hour.Before(newest.Add(-time.Hour)) {
				break
			}
			if err := compact(hour); err != nil && !errors.Is(err, ErrClosed) {
				l.store.o.Log.Error("an hour of telemetry cannot be compacted", "scheduler", l.scheduler, "hour", hour,
					"err", err)
			}
		}
	}
	l.drop()
}

// compact makes the files of an hour of its log and of the samples that came before. A crash repeats it.
func (l *log) compact(hour time.Time) error {
	end := int64(0)
	err := l.store.o.Room(func() (err error) {
		end, err = l.makeHour(hour)
		return err
	})
	if err != nil {
		return err
	}
	return l.cut(fileName{logName, hour}, end)
}

// makeHour makes the files of an hour, and returns the end of its log. Means of samples that are gone stay.
func (l *log) makeHour(hour time.Time) (end int64, err error) {
	s := l.store
	h, err := s.openHour(l.scheduler, hour, telemetry.GPU{}, nil)
	if err != nil {
		return 0, err
	}
	defer h.close()
	var outs [resolutions]*atomicfile.File
	defer func() {
		for _, f := range outs {
			f.Abort()
		}
	}()
	for r := range resolutions {
		path := s.path(l.scheduler, names[r], hour)
		if _, err := os.Stat(path); err == nil && h.partial && r != Raw {
			continue
		}
		if outs[r], err = atomicfile.CreatePlain(path); err != nil {
			return 0, err
		}
	}
	if h.partial {
		if _, err := outs[Raw].Write(partial); err != nil {
			return 0, err
		}
	}
	var rows [resolutions][]telemetry.GPUSample
	flush := func(least int) error {
		for r := range resolutions {
			for len(rows[r]) >= least && len(rows[r]) > 0 {
				n := min(perFrame, len(rows[r]))
				if _, err := outs[r].Write(appendFrames(nil, rows[r][:n])); err != nil {
					return err
				}
				rows[r] = append(rows[r][:0], rows[r][n:]...)
			}
		}
		return nil
	}
	err = merge(h.all, s.noteDamage, func(one []telemetry.GPUSample) error {
		select {
		case <-l.dropped:
			return ErrClosed
		default:
		}
		for r := range resolutions {
			if outs[r] == nil {
				continue
			} else if r == Raw {
				rows[r] = append(rows[r], one...)
			} else {
				rows[r] = append(rows[r], means(one, r.Step())...)
			}
		}
		return flush(perFrame)
	})
	if err == nil {
		err = flush(0)
	}
	for _, f := range outs {
		if f != nil && err == nil {
			err = f.Finish(nil)
		}
	}
	return h.ends, err
}

// cut removes the begin of a log, up to an end, of which other files have the frames. Whole frames that were appended
// since stay.
func (l *log) cut(name fileName, end int64) error {
	path := l.store.path(l.scheduler, name.kind, name.hour)
	return l.do(func(files map[fileName]*os.File) error {
		release(files, name)
		delete(l.iterations, name.hour)
		delete(l.repaired, name)
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return err
		}
		since, err := scan(io.NewSectionReader(file, end, info.Size()-end), func(int64, []byte) error { return nil })
		if err != nil {
			return err
		}
		if since.end > 0 {
			return l.store.o.Room(func() error {
				return atomicfile.Write(path, func(out io.Writer) error {
					_, err := io.Copy(out, io.NewSectionReader(file, end, since.end))
					return err
				})
			})
		}
		if err := os.Remove(path); err != nil {
			return err
		}
		return atomicfile.SyncDir(filepath.Dir(path))
	})
}

// drop removes the files of the oldest hours. A log goes once it is compacted.
func (l *log) drop() {
	keep := l.store.o.Keep
	for kind, most := range map[string]int{names[Raw]: keep[Raw], names[Fine]: keep[Fine], names[Coarse]: keep[Coarse],
		iterationRaw: keep[Raw]} {
		hours, err := l.store.hours(l.scheduler, kind)
		if err != nil {
			continue
		}
		for _, hour := range hours[:max(0, len(hours)-most)] {
			err := l.do(func(map[fileName]*os.File) error {
				delete(l.iterations, hour) // counted again if it comes again
				return os.Remove(l.store.path(l.scheduler, kind, hour))
			})
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				l.store.o.Log.Error("old telemetry cannot be dropped", "scheduler", l.scheduler, "hour", hour,
					"err", err)
			}
		}
	}
}

// Shed removes the oldest hour of raw samples of the scheduler with the most bytes of them, and reports whether there
// was one. Its means stay.
func (s *Store) Shed() bool {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return false
	}
	oldest, most := "", int64(0)
	for _, e := range entries {
		hours, err := s.hours(e.Name(), names[Raw])
		if err != nil || len(hours) == 0 {
			continue
		}
		bytes := int64(0)
		for _, hour := range hours {
			if info, err := os.Stat(s.path(e.Name(), names[Raw], hour)); err == nil {
				bytes += info.Size()
			}
		}
		if bytes > most {
			oldest, most = s.path(e.Name(), names[Raw], hours[0]), bytes
		}
	}
	if oldest == "" || os.Remove(oldest) != nil {
		return false
	}
	s.o.Log.Warn("the disk is full: the oldest raw telemetry is dropped", "file", oldest)
	return true
}
