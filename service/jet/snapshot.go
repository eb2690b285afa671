package jet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/autosched/autosched/service/store"
)

// DefaultSnapshotAfter is the size of the log from which an archive replaces it, in bytes.
const DefaultSnapshotAfter = 64 << 20

// archiveEvery is how often the size of the log is looked at.
const archiveEvery = time.Minute

// archivePrefix is of the names of archives, before the sequence of their last entry.
const archivePrefix = "entry-"

// archive is one in the object store.
type archive struct {
	name string
	last uint64 // the entry up to which it goes
}

// archivesOf lists the archives, the newest first.
func archivesOf(ctx context.Context, objects jetstream.ObjectStore) (out []archive, err error) {
	all, err := objects.List(ctx)
	if errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil, nil
	}
	for _, one := range all {
		number, ok := strings.CutPrefix(one.Name, archivePrefix)
		if last, err := strconv.ParseUint(number, 10, 64); ok && err == nil {
			out = append(out, archive{one.Name, last})
		}
	}
	slices.SortFunc(out, func(a, b archive) int { return cmp.Compare(b.last, a.last) })
	return out, err
}

// restore makes a directory from the newest archive that can be read, or an empty one if there is none at all, and
// returns the last entry of it. The log goes on from an older one where the newest was not yet checked: a node ended
// before it was.
func (r *Replica) restore(ctx context.Context, dir string) (last uint64, err error) {
	objects, err := r.e.snapshots(ctx)
	if err != nil {
		return 0, err
	}
	all, err := archivesOf(ctx, objects)
	if err != nil {
		return 0, err
	}
	if len(all) == 0 {
		return 0, os.MkdirAll(dir, 0o700)
	}
	var errs []error
	for _, one := range all {
		in, err := objects.Get(ctx, one.name)
		if err == nil {
			_, err = store.RestoreReplica(in, dir)
			err = errors.Join(err, in.Close())
		}
		if err == nil {
			r.o.Log.Info("the replica is made from an archive", "entry", one.last)
			return one.last, nil
		}
		r.o.Log.Error("an archive cannot be read", "entry", one.last, "err", err)
		errs = append(errs, fmt.Errorf("archive %s: %w", one.name, err))
		if err := os.RemoveAll(dir); err != nil {
			return 0, err
		}
	}
	return 0, errors.Join(errs...)
}

// Temporary files and folders beside a replica.
const (
	archiveTemp = ".archive-*"
	moveTemp    = ".move-*"
)

// sweep removes the temporary files that a process left in a directory as it was killed.
func sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		for _, pattern := range []string{archiveTemp, moveTemp} {
			if is, _ := filepath.Match(pattern, entry.Name()); is {
				err = errors.Join(err, os.RemoveAll(filepath.Join(dir, entry.Name())))
			}
		}
	}
	return err
}

// archives stores an archive where the log has grown. The nodes that do not lead come first.
func (r *Replica) archives(ctx context.Context) {
	ticker := time.NewTicker(archiveEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		r.mu.Lock()
		limit := r.o.SnapshotAfter
		if r.leading {
			limit *= 2
		}
		r.mu.Unlock()
		stream, err := r.e.js.Stream(ctx, logStream)
		if err == nil && stream.CachedInfo().State.Bytes > limit {
			err = r.Archive(ctx)
		}
		if err != nil && ctx.Err() == nil {
			r.o.Log.Error("no archive is stored; trying again", "in", archiveEvery, "err", err)
		}
	}
}

// Archive stores an archive of the replica, and removes the log before it and older archives. Entries wait while the
// files are copied.
func (r *Replica) Archive(ctx context.Context) error {
	temp, err := os.CreateTemp(filepath.Dir(r.o.Dir), archiveTemp)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	defer temp.Close()
	r.applying.Lock()
	at := r.store.Place()
	if err = r.store.Mark(); err == nil {
		_, err = r.store.Backup(ctx, temp)
	}
	r.applying.Unlock()
	if err != nil {
		return err
	}
	r.e.step("copied")
	stream, err := r.e.js.Stream(ctx, logStream)
	if err != nil {
		return err
	}
	if has, err := hasPlace(ctx, stream, at); err != nil || !has {
		return err
	}
	if err := r.e.putArchive(ctx, temp, at.Sequence); err != nil {
		return err
	}
	return stream.Purge(ctx, jetstream.WithPurgeSequence(at.Sequence+1))
}

// hasPlace reports whether the log has the entry of a place, and not only later ones, for which there is an archive. It
// returns errChain if that is another entry than the one of the place.
func hasPlace(ctx context.Context, stream jetstream.Stream, at store.Place) (bool, error) {
	if at.Sequence == 0 {
		return true, nil
	}
	m, err := stream.GetMsg(ctx, at.Sequence)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		info, err := stream.Info(ctx)
		if err == nil && info.State.LastSeq < at.Sequence {
			err = fmt.Errorf("%w: the replica is at entry %d, the log ends at %d", errAhead, at.Sequence,
				info.State.LastSeq)
		}
		return false, err
	}
	if err == nil && chainIn(m.Data) != at.Chain {
		err = fmt.Errorf("entry %d: %w", at.Sequence, errChain)
	}
	return err == nil, err
}

// stepping is an archive that is read and stored part by part.
type stepping struct {
	io.Reader
	e *Engine
}

func (s stepping) Read(b []byte) (int, error) {
	s.e.step("storing")
	return s.Reader.Read(b)
}

// putArchive stores an archive, reads it back, and removes older ones.
func (e *Engine) putArchive(ctx context.Context, in io.ReadSeeker, last uint64) error {
	objects, err := e.snapshots(ctx)
	if err != nil {
		return err
	}
	before, err := archivesOf(ctx, objects)
	if err != nil {
		return err
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return err
	}
	name := archivePrefix + strconv.FormatUint(last, 10)
	if _, err := objects.Put(ctx, jetstream.ObjectMeta{Name: name}, stepping{in, e}); err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	e.step("stored")
	back, err := objects.Get(ctx, name)
	if err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	_, err = store.VerifyBackup(back)
	if err := errors.Join(err, back.Close()); err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	e.step("read back")
	for _, one := range before {
		if one.last < last {
			if err := objects.Delete(ctx, one.name); err != nil {
				return fmt.Errorf("archive %s: %w", one.name, err)
			}
		}
	}
	e.step("older ones removed")
	return nil
}
