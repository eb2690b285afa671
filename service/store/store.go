// Package store keeps what a controller must not lose, in one directory
// of bbolt files: config.db holds schedulers, configurations and
// acknowledgements; events-YYYYMMDD.db holds the events taken in on that day
// (UTC, wall clock), so that old ones are dropped by removing a file;
// checkpoint-YYYYMMDD.db holds what is still needed of those up to that day. Every
// record carries a CRC32C, and a configuration also its content hash. A call
// that returned without an error is on disk.
//
// The freelist stays synced: without it a large segment takes minutes to open
// after a cold start.
package store

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// The errors that callers tell apart, besides ErrCorrupt.
var (
	ErrClosed = errors.New("the store is closed")
	ErrLocked = errors.New("the directory is in use by another process")
	ErrFull   = errors.New("the disk is full")
	ErrNewer  = errors.New("the directory was written by a newer version of autosched")
	ErrLost   = errors.New("config.db is missing or empty")
)

const (
	configFile  = "config.db"
	newSuffix   = ".new"    // of a file that is being made
	asideSuffix = ".orphan" // of files that a directory started anew does not read
	metaBucket  = "_meta"
	lockTimeout = time.Second
)

// Options of a store. The zero value is right for a service.
type Options struct {
	// Now is the clock that names event segments; time.Now if nil.
	Now func() time.Time
	// StartAnew makes a new config.db where Open returns ErrLost, and renames what is
	// left of the former one.
	StartAnew bool
	// NewEpoch begins a new epoch, as after a restore.
	NewEpoch bool
	// NewID makes ids of epochs and the secret; crypto/rand.Text if nil.
	NewID func() string
}

// Store is an open directory. It is safe for concurrent use.
type Store struct {
	dir     string
	now     func() time.Time
	reserve *reserve
	epoch   epochRecord
	began   bool // by Open

	committing sync.Mutex // guards config, failed and pageSize
	config     *bolt.DB   // nil after a failed write, until it is open again
	failed     uint64     // while it is opened anew: the number of the commit that failed, 0 if none was begun
	pageSize   int64      // of config.db then, in bytes

	// switching is held to open, replace or close the segment that is written, and shared by
	// those who read segments: a file has one descriptor that writes, or several that read.
	switching   sync.RWMutex
	segment     *bolt.DB // written; nil if none is open
	segmentName string
	// dropping is held to drop segments, and shared to read or copy several.
	dropping sync.RWMutex
	// copying is shared by backups, and held to remove what a copy of config.db refers to.
	copying sync.RWMutex
	cut     atomic.Pointer[string] // the last day that is dropped or about to be; nil if there is none
	step    func(string)           // called between the steps of a drop, of tests; may be nil

	damaged sync.Map // names of segments with unreadable pages, which are not written any more
	metas   sync.Map // *CorruptError by the name of a file with a damaged meta page
	stuck   sync.Map // *stuckFile by name

	cursors sync.Map      // cursors of the last events by scheduler
	reader  atomic.Uint64 // the least version of readers that events were written for

	rounds, reports, workloads asideFile
	readOnly                   bool // of a Reader

	studying sync.Mutex   // guards queued and writing
	queued   []*studyCall // changes of studies that wait for a commit
	writing  bool         // a goroutine commits them

	changes, events outcome // of the last writes
	commits         *prometheus.HistogramVec

	appends    chan *appendCall
	closing    chan struct{}
	writerDone chan struct{}
	writer     sync.Once // starts writeEvents
	closeOnce  sync.Once
	closeErr   error
}

func newStore(dir string) *Store {
	return &Store{dir: dir, rounds: asideFile{name: roundsFile}, reports: asideFile{name: reportsFile},
		workloads: asideFile{name: workloadsFile}}
}

// Open opens a directory, creating it if there is none, and locks it against
// other processes.
func Open(dir string, o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = rand.Text
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	r := newStore(dir)
	r.now, r.appends, r.commits = o.Now, make(chan *appendCall), newCommits()
	r.closing, r.writerDone = make(chan struct{}), make(chan struct{})
	err := r.checkNew(o.StartAnew)
	if err == nil {
		err = r.openConfig(o.StartAnew)
	}
	if errors.Is(err, ErrCorrupt) && o.StartAnew {
		if err = r.setAside(); err == nil {
			err = r.openConfig(false)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", dir, adviseRestore(err))
	}
	if err = r.findCheckpoint(); err == nil {
		r.reserve = newReserve(dir)
		err = r.upgrade()
	}
	if err != nil {
		if r.config != nil {
			err = errors.Join(err, r.closeDB(configFile, r.config))
		}
		return nil, fmt.Errorf("store %s: %w", dir, err)
	}
	r.settleEpoch(o)
	return r, nil
}

// Close waits for the commit under way and releases the directory.
func (r *Store) Close() error {
	r.closeOnce.Do(func() {
		close(r.closing)
		r.writer.Do(func() { close(r.writerDone) })
		<-r.writerDone
		for _, name := range asideFiles {
			s := r.aside(name)
			s.mu.Lock()
			r.closeAside(s)
			s.mu.Unlock()
		}
		r.committing.Lock()
		defer r.committing.Unlock()
		if r.config != nil {
			r.closeErr = r.closeDB(configFile, r.config)
		}
	})
	return r.closeErr
}

// openConfig opens config.db, and makes it if need be. With whole it is an ErrCorrupt if a page of it
// cannot be read.
func (r *Store) openConfig(whole bool) error {
	err := r.ensure(configFile)
	if err == nil {
		r.config, err = r.openDB(configFile, false)
	}
	if err == nil && whole {
		if _, _, _, err = r.Load(); err != nil {
			_ = r.closeDB(configFile, r.config)
			r.config = nil
		}
	}
	return err
}

// advice is what helps if config.db is lost or cannot be read.
const advice = "restore the store from a backup (autosched restore), or start without the former schedulers and " +
	"their events (serve --start-anew), which keeps these files as *" + asideSuffix

// adviseRestore adds advice to an error of a damaged config.db.
func adviseRestore(err error) error {
	var damaged *CorruptError
	if errors.As(err, &damaged) && damaged.File == configFile {
		return fmt.Errorf("%w: %s", err, advice)
	}
	return err
}

// checkNew returns ErrLost if config.db is gone from a directory that had one. With startAnew it
// moves what is left aside instead.
func (r *Store) checkNew(startAnew bool) error {
	info, err := os.Stat(filepath.Join(r.dir, configFile))
	if err == nil && info.Size() > 0 {
		return nil
	}
	names, listErr := segmentFiles(r.dir)
	if listErr != nil {
		return listErr
	}
	found := fmt.Sprintf("beside %d segments of events", len(names))
	if err == nil {
		found = "with 0 bytes, " + found
	} else if len(names) == 0 {
		return nil
	}
	if !startAnew {
		return fmt.Errorf("%w, %s: %s", ErrLost, found, advice)
	}
	return r.setAside()
}

// setAside renames config.db and the segments, so that the store begins anew.
func (r *Store) setAside() error {
	names, err := segmentFiles(r.dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(r.dir, configFile)); err == nil {
		names = append(names, configFile)
	}
	for _, name := range names {
		path := filepath.Join(r.dir, name)
		if _, err := os.Stat(path + asideSuffix); err == nil {
			return fmt.Errorf("%s%s exists already: move it away", name, asideSuffix)
		}
		if err := os.Rename(path, path+asideSuffix); err != nil {
			return err
		}
	}
	return syncDir(r.dir)
}

// ensure makes a database file unless it is there. A name never stands for a file half made: it
// is written under another and renamed. Its lock keeps other processes from making the same.
func (r *Store) ensure(name string) error {
	path := filepath.Join(r.dir, name)
	made := func() bool {
		info, err := os.Stat(path)
		return err == nil && info.Size() > 0
	}
	if made() {
		return nil
	}
	db, err := r.openDB(name+newSuffix, false)
	if errors.Is(err, ErrCorrupt) { // a crash left it
		if err = os.Remove(path + newSuffix); err == nil {
			db, err = r.openDB(name+newSuffix, false)
		}
	}
	if err != nil {
		return err
	}
	defer r.closeDB(name+newSuffix, db)
	if made() {
		return nil
	}
	if err := os.Rename(path+newSuffix, path); err != nil {
		return storageError(err)
	}
	return storageError(syncDir(r.dir))
}

// openDB opens one file and checks its layout.
func (r *Store) openDB(name string, readOnly bool) (*bolt.DB, error) {
	path := filepath.Join(r.dir, name)
	var db *bolt.DB
	err := guardPanics(name, func() (err error) {
		db, err = bolt.Open(path, 0o600,
			&bolt.Options{Timeout: lockTimeout, ReadOnly: readOnly, FreelistType: bolt.FreelistMapType})
		return err
	})
	switch errno := syscall.Errno(0); {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, ErrLocked
	case errors.As(err, &errno):
		return nil, fmt.Errorf("%s: %w", name, storageError(err))
	case errors.Is(err, ErrCorrupt):
		return nil, err
	case err != nil:
		return nil, &CorruptError{File: name, Why: err.Error()}
	}
	if !readOnly {
		// What a process that was killed had written may not be on disk yet, the file's name neither,
		// and a commit would go on from it as if it were.
		if err := errors.Join(db.Sync(), syncDir(r.dir)); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", name, storageError(err)), db.Close())
		}
	}
	if err := r.noteMetas(name, db); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), db.Close())
	}
	err = guardPanics(name, func() error {
		marked := false
		err := db.View(func(tx *bolt.Tx) error {
			marked = tx.Bucket([]byte(metaBucket)) != nil
			return checkLayout(tx)
		})
		if err != nil || marked || readOnly {
			return err
		}
		return r.write(name, db, checkLayout)
	})
	if err != nil {
		_ = r.closeDB(name, db)
		return nil, storageError(err)
	}
	return db, nil
}

// syncDir makes a new file's name durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// stuckFile is a file on which bbolt panicked in a commit. Its locks may be held for ever: it is
// read, but neither written nor closed.
type stuckFile struct {
	db  *bolt.DB
	err error // of the commit
}

// write commits to a file.
func (r *Store) write(name string, db *bolt.DB, f func(*bolt.Tx) error) error {
	if s, ok := r.stuck.Load(name); ok {
		return s.(*stuckFile).err
	}
	returned := false
	err := guardPanics(name, func() error {
		err := db.Update(f)
		returned = true
		return err
	})
	if !returned {
		r.stuck.Store(name, &stuckFile{db, err})
	}
	return err
}

// closeDB closes a file.
func (r *Store) closeDB(name string, db *bolt.DB) error {
	if _, ok := r.stuck.Load(name); ok {
		return nil
	}
	return guardPanics(name, db.Close)
}

// guardPanics turns bbolt's panics on damaged pages, and faults beyond the end of a truncated
// file, into a named error.
func guardPanics(file string, f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = &CorruptError{File: file, Why: fmt.Sprint(p)}
		}
	}()
	return f()
}
