package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/autosched/autosched/internal/atomicfile"
)

// compactTx is the size of a transaction that copies, in bytes.
const compactTx = 1 << 20

// Compact is [Store.Compact] of a stopped service. The error is ErrLocked while a service has the directory open.
func Compact(dir string) (before, after int64, err error) {
	if _, err := os.Stat(filepath.Join(dir, configFile)); err != nil {
		return 0, 0, fmt.Errorf("store %s: is not the directory of a service: %w", dir, err)
	}
	r, err := Open(dir, Options{})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return r.Compact(context.Background())
}

// Compact rewrites config.db and the files of rounds, reports and workloads without their free pages, and returns
// their sizes in bytes; records and the epoch stay as they are. Commits to a file go on while it is copied; they wait
// while it is compared with its copy, which is given the changes since and takes its place. The error is ErrFull if
// there is no room for a copy, ErrClosed if the store is closed meanwhile. The caller must run one at a time.
func (r *Store) Compact(ctx context.Context) (before, after int64, err error) {
	for _, name := range append(slices.Clone(auxFiles), configFile) {
		was, is, err := r.compact(ctx, name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return before, after, fmt.Errorf("store %s: %s: %w", r.dir, name, storageError(err))
		}
		before, after = before+was, after+is
	}
	return before, after, nil
}

// compact rewrites a file and returns its sizes.
func (r *Store) compact(ctx context.Context, name string) (before, after int64, err error) {
	stopped := func() error { return cmp.Or(r.ended(), ctx.Err()) }
	path := filepath.Join(r.dir, name)
	made := path + compactSuffix
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	to, err := newCopy(made)
	if err != nil {
		return 0, 0, err
	}
	var from *bolt.DB
	err = r.withFile(name, func(db **bolt.DB) error { from = *db; return nil })
	if err == nil {
		err = r.checkRoom(info.Size() - int64(from.Stats().FreePageN)*int64(from.Info().PageSize))
	}
	if err == nil {
		err = guardPanics(name, func() error { return copyRecords(to, from, stopped) })
	}
	if err == nil {
		r.reached(name + " copied")
		to.NoSync, to.NoGrowSync = false, false
		err = to.Sync()
	}
	var old *bolt.DB // once the copy is in its place
	if err == nil {
		err = r.withFile(name, func(db **bolt.DB) error {
			return guardPanics(name, func() error {
				if err := r.catchUp(name, to, *db); err != nil {
					return err
				}
				r.reached(name + " on disk")
				if err := stopped(); err != nil {
					return err
				}
				if err := os.Rename(made, path); err != nil {
					return err
				}
				r.reached(name + " renamed")
				if name == configFile {
					r.failedCommit = 0
				}
				r.metaErrs.Delete(name)
				to.AllocSize = growth
				old, *db = *db, to
				err := atomicfile.SyncDir(r.dir)
				if err != nil { // the next commit opens the file, and begins with that
					*db = nil
					err = errors.Join(err, to.Close())
				}
				return err
			})
		})
	}
	if old == nil {
		return 0, 0, errors.Join(err, to.Close(), remove(made))
	}
	if err := errors.Join(err, r.closeDB(name, old)); err != nil { // it waits for readers
		return 0, 0, err
	}
	written, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	return info.Size(), written.Size(), nil
}

// newCopy makes an empty file for a copy, which the caller must sync.
func newCopy(path string) (*bolt.DB, error) {
	if err := remove(path); err != nil {
		return nil, err
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockTimeout, FreelistType: bolt.FreelistMapType,
		InitialMmapSize: mapSize, NoSync: true, NoGrowSync: true})
	if err == nil {
		db.AllocSize = os.Getpagesize()
	}
	return db, err
}

// checkRoom returns ErrFull unless the disk has room for a copy of a size in bytes, the reserve and as much for the
// writes meanwhile. Some file systems do not tell their size.
func (r *Store) checkRoom(size int64) error {
	free, all, err := Space(r.dir)
	if need := uint64(size + 2*reserveSize); err == nil && all > 0 && free < need {
		err = fmt.Errorf("%w: the copy needs %d MiB of free space, there are %d", ErrFull, (need+1<<20-1)>>20, free>>20)
	}
	return err
}

// copyRecords copies the records of a file to an empty one, in transactions of about compactTx, before each of which it
// calls stopped.
func copyRecords(to, from *bolt.DB, stopped func() error) error {
	return from.View(func(of *bolt.Tx) (err error) {
		var tx *bolt.Tx
		size := compactTx
		room := func(n int) error {
			if size += n; size <= compactTx {
				return nil
			}
			size = n
			if tx != nil {
				if err := tx.Commit(); err != nil {
					return err
				}
			}
			if err := stopped(); err != nil {
				return err
			}
			tx, err = to.Begin(true)
			return err
		}
		defer func() {
			if tx != nil {
				_ = tx.Rollback() // of what was not committed
			}
		}()
		var walk func(b *bolt.Bucket, path ...string) error
		walk = func(b *bolt.Bucket, path ...string) error {
			if err := room(len(path[len(path)-1])); err != nil {
				return err
			}
			out, err := bucket(tx, path...)
			if err != nil {
				return err
			}
			if err := out.SetSequence(b.Sequence()); err != nil {
				return err
			}
			return b.ForEach(func(k, v []byte) error {
				if v == nil {
					return walk(b.Bucket(k), append(slices.Clone(path), string(k))...)
				}
				if err := room(len(k) + len(v)); err != nil {
					return err
				}
				if out.Tx() != tx {
					if out, err = bucket(tx, path...); err != nil {
						return err
					}
				}
				out.FillPercent = 1
				return out.Put(k, v)
			})
		}
		err = of.ForEach(func(name []byte, b *bolt.Bucket) error { return walk(b, string(name)) })
		if err == nil && tx != nil {
			err = tx.Commit()
		}
		return err
	})
}

// withFile calls f with config.db or an auxiliary file, to which nothing is committed meanwhile.
func (r *Store) withFile(name string, f func(db **bolt.DB) error) (err error) {
	s, db, lock := r.aux(name), &r.config, &r.configMu
	if s != nil {
		db, lock = &s.db, &s.mu
	}
	lock.Lock()
	defer lock.Unlock()
	if err := r.ended(); err != nil {
		return err
	}
	if stuck, ok := r.stuck.Load(name); ok {
		return stuck.(*stuckFile).err
	}
	if s != nil {
		err = r.openAux(s)
	} else if r.config == nil {
		err = r.reopenConfig()
	}
	if err != nil {
		return err
	}
	return f(db)
}

// catchUp commits to a copy of a file what was committed to the file since.
func (r *Store) catchUp(name string, to, from *bolt.DB) error {
	err := to.Update(func(tx *bolt.Tx) error {
		if err := from.View(func(of *bolt.Tx) error { return mirror(tx, of) }); err != nil || name != configFile {
			return err
		}
		epoch := r.presentEpoch() // or the next start would take it for a copy
		epoch.File = fileIdentity(to.Path())
		return putJSON(tx, epochKey, epoch, metaBucket)
	})
	if err != nil {
		return err
	}
	return to.Update(func(*bolt.Tx) error { return nil }) // so that both meta pages know the content
}

// buckets is a transaction or a bucket.
type buckets interface {
	Cursor() *bolt.Cursor
	Bucket(name []byte) *bolt.Bucket
	CreateBucketIfNotExists(name []byte) (*bolt.Bucket, error)
	DeleteBucket(name []byte) error
}

// mirror makes the content of one equal to that of the other.
func mirror(to, from buckets) error {
	out, in := &bolt.Bucket{}, &bolt.Bucket{} // a transaction has no records
	if b, ok := to.(*bolt.Bucket); ok {
		out, in = b, from.(*bolt.Bucket)
		if err := out.SetSequence(in.Sequence()); err != nil {
			return err
		}
	}
	var gone, others [][]byte
	c := to.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if v == nil && from.Bucket(k) == nil {
			others = append(others, k)
		} else if v != nil && in.Get(k) == nil {
			gone = append(gone, k)
		}
	}
	for _, k := range others {
		if err := to.DeleteBucket(k); err != nil {
			return err
		}
	}
	for _, k := range gone {
		if err := out.Delete(k); err != nil {
			return err
		}
	}
	c = from.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		var err error
		if v != nil {
			if !bytes.Equal(out.Get(k), v) {
				err = out.Put(k, v)
			}
		} else if b, made := to.CreateBucketIfNotExists(k); made == nil {
			err = mirror(b, from.Bucket(k))
		} else {
			err = made
		}
		if err != nil {
			return err
		}
	}
	return nil
}
