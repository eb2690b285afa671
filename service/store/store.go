// Package store is the durable storage of the service: one directory of bbolt files. config.db holds schedulers,
// configurations, studies, requests and the end of the audit log; events-YYYYMMDD.db holds the events received on that
// day (UTC, wall clock), so that old events are dropped by removing a file; checkpoint-YYYYMMDD.db holds the events up
// to that day that are still needed; audit-YYYYMMDD.db holds older records of the audit log; rounds.db, reports.db and
// workloads.db hold records that the service can do without. Every record carries a CRC32C, and a configuration its
// content hash, too. A write that returned without an error is on disk.
//
// The freelist stays synced: without it a large segment takes minutes to open after a cold start.
package store

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/autosched/autosched/internal/atomicfile"
)

// The errors that callers tell apart, besides ErrCorrupt.
var (
	ErrClosed = errors.New("the store is closed")
	ErrLocked = errors.New("the directory is in use by another process")
	ErrFull   = errors.New("the disk is full")
	ErrNewer  = errors.New("the directory was written by a newer version of autosched")
	ErrLost   = errors.New("config.db is missing or empty")
	// ErrReplica is the error of a directory that is opened as what it is not.
	ErrReplica = errors.New("the directory belongs to a cluster")
)

// Folders in the directory of a service: of evaluators' jobs, and of findings, whose files are replaced, never changed.
const (
	EvaluationsFolder = "evaluations"
	FindingsFolder    = "findings"
)

const (
	configFile = "config.db"
	newSuffix  = ".new" // of a file that is being made
	// compactSuffix is of the copy of a file that is being compacted, which nothing else reads.
	compactSuffix = ".compact"
	orphanSuffix  = ".orphan" // of files that StartAnew sets aside
	metaBucket    = "_meta"
	lockTimeout   = time.Second
)

// Options of a store. The zero value is right for a service.
type Options struct {
	// Now is the clock that names event segments; time.Now if nil.
	Now func() time.Time
	// StartAnew makes a new config.db where Open would return ErrLost, and renames the files that are left.
	StartAnew bool
	// NewEpoch begins a new epoch, as after a restore.
	NewEpoch bool
	// Shed is called when the disk is full: it removes records that are worth less than events, and reports whether
	// there were any. It must be safe for concurrent use; nothing is removed if nil.
	Shed func() bool
	// NewID makes ids of epochs and the secret; crypto/rand.Text if nil.
	NewID func() string
	// Log has damage that a change replaces; nothing is logged if nil.
	Log *slog.Logger
	// Replica opens a directory that follows a log: only Apply changes it, at the times of the log.
	Replica bool
	// Adopt makes a directory what Replica says: one that was just restored, or whose move to a cluster did not end.
	Adopt bool
}

// Store is an open directory. It is safe for concurrent use.
//
// A goroutine that holds several locks must have taken them in this order: dropMu, backupMu, the lock of an auxiliary
// file, reserve.mu, segmentMu, configMu. changeMu is held alone.
type Store struct {
	dir      string
	now      func() time.Time
	log      *slog.Logger
	reserve  *reserve
	newEpoch bool // by Open

	epochMu sync.Mutex // guards epoch once the store is open
	epoch   epochRecord

	configMu     sync.Mutex // guards config, failedCommit and pageSize
	config       *bolt.DB   // nil after a failed write, until it is open again
	failedCommit uint64     // while it is opened anew: the number of the commit that failed, 0 if none was begun
	pageSize     int64      // of config.db then, in bytes

	// segmentMu must be held to open, replace or close the segment that is written, and shared to read segments: a
	// file has one descriptor that writes, or several that read.
	segmentMu   sync.RWMutex
	segment     *bolt.DB // written; nil if none is open
	segmentName string
	// dropMu must be held to drop segments, and shared to read or copy several.
	dropMu sync.RWMutex
	// backupMu must be shared by backups, and held to remove records that a copy of config.db may refer to.
	backupMu   sync.RWMutex
	droppedDay atomic.Pointer[string] // the last day that is dropped or about to be; nil if there is none
	onStep     func(string)           // called between the steps of a drop or a backup, of tests; may be nil

	damaged  sync.Map // names of segments with unreadable pages, which are not written any more
	metaErrs sync.Map // *CorruptError by the name of a file with a damaged meta page
	stuck    sync.Map // *stuckFile by name

	cursors sync.Map      // cursors of the last events by scheduler
	reader  atomic.Uint64 // the least version of readers that events were written for

	rounds, reports, workloads auxFile
	readOnly                   bool // of a Reader

	changeMu sync.Mutex    // guards changes and changing
	changes  []*configCall // that wait for a commit
	changing bool          // a goroutine commits them

	lastChange, lastEvents outcome // of the last writes
	commits                *prometheus.HistogramVec

	replica *replica // nil of a store that follows no log

	appends    chan *appendCall
	closing    chan struct{}
	writerDone chan struct{}
	writer     sync.Once // starts writeEvents
	closeOnce  sync.Once
	closeErr   error
}

func newStore(dir string) *Store {
	return &Store{dir: dir, rounds: auxFile{name: roundsFile}, reports: auxFile{name: reportsFile},
		workloads: auxFile{name: workloadsFile}, closing: make(chan struct{})}
}

// Open opens a directory, upgrades its layout and locks it against other processes. It creates a missing one.
func Open(dir string, o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = rand.Text
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	r := newStore(dir)
	r.log = o.Log
	if o.Replica {
		r.replica = &replica{}
		o.Now = r.replica.now
	}
	r.now, r.appends, r.commits = o.Now, make(chan *appendCall), newCommits()
	r.writerDone = make(chan struct{})
	err := r.checkLost(o.StartAnew)
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
	if err = r.syncSegments(); err == nil && o.Replica { // a damaged one is made anew
		err = r.checkFiles()
	}
	if err == nil {
		err = r.findCheckpoint()
	}
	if err == nil {
		r.reserve = newReserve(dir, o.Shed)
		err = r.upgrade()
	}
	if err == nil {
		err = r.openReplica(o.Adopt)
	}
	if err != nil {
		if r.config != nil {
			err = errors.Join(err, r.closeDB(configFile, r.config))
		}
		return nil, fmt.Errorf("store %s: %w", dir, err)
	}
	r.initEpoch(o)
	return r, nil
}

// syncSegments brings events to disk that a process wrote and was killed before it did so: neither a sender that
// repeats them nor a log that goes on writes them again.
func (r *Store) syncSegments() error {
	names, err := segmentNames(r.dir)
	for _, name := range names {
		var f *os.File
		if f, err = os.Open(filepath.Join(r.dir, name)); err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, storageError(err))
		}
	}
	return errors.Join(err, atomicfile.SyncDir(r.dir))
}

// ended returns ErrClosed once the store is being closed.
func (r *Store) ended() error {
	select {
	case <-r.closing:
		return ErrClosed
	default:
		return nil
	}
}

// Close waits for the current commit and releases the directory.
func (r *Store) Close() error {
	r.closeOnce.Do(func() {
		close(r.closing)
		r.writer.Do(func() { close(r.writerDone) })
		<-r.writerDone
		r.closeSegment() // of a replica
		for _, name := range auxFiles {
			s := r.aux(name)
			s.mu.Lock()
			r.closeAux(s)
			s.mu.Unlock()
		}
		r.configMu.Lock()
		defer r.configMu.Unlock()
		if r.config != nil {
			r.closeErr = r.closeDB(configFile, r.config)
		}
	})
	return r.closeErr
}

// openConfig opens config.db, and creates it if necessary. With whole a page that cannot be read is an ErrCorrupt.
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

// advice is the remedy for a config.db that is lost or cannot be read.
const advice = "restore the store from a backup (autosched admin restore), or start without the former schedulers " +
	"and their events (serve --start-anew), which keeps these files as *" + orphanSuffix

// adviseRestore adds advice to an error of a damaged config.db.
func adviseRestore(err error) error {
	var damaged *CorruptError
	if errors.As(err, &damaged) && damaged.File == configFile {
		return fmt.Errorf("%w: %s", err, advice)
	}
	return err
}

// checkLost returns ErrLost if a directory lost its config.db. With startAnew it sets the other files aside instead.
func (r *Store) checkLost(startAnew bool) error {
	info, err := os.Stat(filepath.Join(r.dir, configFile))
	if err == nil && info.Size() > 0 {
		return nil
	}
	names, listErr := segmentFiles(r.dir)
	if listErr != nil {
		return listErr
	}
	found := fmt.Sprintf("beside %d segments of events", len(names))
	others, listErr := auditFiles(r.dir)
	for _, name := range append([]string{reserveFile}, auxFiles...) {
		if _, err := os.Stat(filepath.Join(r.dir, name)); err == nil {
			others = append(others, name)
		}
	}
	if listErr != nil {
		return listErr
	}
	switch {
	case err == nil:
		found = "with 0 bytes, " + found
	case len(names) == 0 && len(others) == 0:
		return nil
	case len(names) == 0: // no scheduler sent events
		found = "beside " + strings.Join(others, ", ")
	}
	if !startAnew {
		return fmt.Errorf("%w, %s: %s", ErrLost, found, advice)
	}
	return r.setAside()
}

// setAside renames config.db, the segments and the audit log, so that a new store can begin.
func (r *Store) setAside() error {
	names, err := segmentFiles(r.dir)
	logs, listErr := auditFiles(r.dir)
	if err = errors.Join(err, listErr); err != nil {
		return err
	}
	names = append(names, logs...)
	if _, err := os.Stat(filepath.Join(r.dir, configFile)); err == nil {
		names = append(names, configFile)
	}
	for _, name := range names {
		path := filepath.Join(r.dir, name)
		if _, err := os.Stat(path + orphanSuffix); err == nil {
			return fmt.Errorf("%s%s exists already: move it away", name, orphanSuffix)
		}
		if err := os.Rename(path, path+orphanSuffix); err != nil {
			return err
		}
	}
	if err := remove(filepath.Join(r.dir, reserveFile)); err != nil { // with it the next start would miss config.db
		return err
	}
	return atomicfile.SyncDir(r.dir)
}

// ensure creates a database file unless it is there. It is written under another name and renamed, so that no name
// is that of an incomplete file. Its lock keeps other processes from creating the same.
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
	return storageError(atomicfile.SyncDir(r.dir))
}

// openDB opens one file and checks its layout.
func (r *Store) openDB(name string, readOnly bool) (*bolt.DB, error) {
	path := filepath.Join(r.dir, name)
	mapped := 0
	if !readOnly && (name == configFile || r.aux(name) != nil) {
		mapped = mapSize
	}
	var db *bolt.DB
	if !readOnly {
		if err := r.prepare(name); err != nil {
			return nil, err
		}
	}
	err := guardPanics(name, func() (err error) {
		for range 3 {
			var file *os.File
			db, err = bolt.Open(path, 0o600, &bolt.Options{Timeout: lockTimeout, ReadOnly: readOnly,
				FreelistType: bolt.FreelistMapType, InitialMmapSize: mapped,
				OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
					f, err := os.OpenFile(name, flag, mode)
					file = f
					return f, err
				}})
			if err != nil {
				return err
			}
			if inPlace(file, path) {
				if mapped > 0 {
					db.AllocSize = growth
				}
				return nil
			}
			_ = db.Close() // a copy has taken its place while the lock was waited for
		}
		return bolterrors.ErrTimeout
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
		// Writes of a process that was killed, and the file's name, may not be on disk yet. A commit must not build
		// on them before they are.
		if err := errors.Join(db.Sync(), atomicfile.SyncDir(r.dir)); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", name, storageError(err)), db.Close())
		}
	}
	if err := r.checkMetas(name, db); err != nil {
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

// stuckFile is a file on which bbolt panicked in a commit. Its locks may never be released: it can be read, but must
// be neither written nor closed.
type stuckFile struct {
	db  *bolt.DB
	err error // of the commit
}

// write commits to a file, unless it is stuck.
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

// closeDB closes a file, unless it is stuck.
func (r *Store) closeDB(name string, db *bolt.DB) error {
	if _, ok := r.stuck.Load(name); ok {
		return nil
	}
	return guardPanics(name, db.Close)
}

// guardPanics turns panics of bbolt on damaged pages, and faults beyond the end of a truncated file, into a
// CorruptError.
func guardPanics(file string, f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = &CorruptError{File: file, Why: fmt.Sprint(p)}
		}
	}()
	return f()
}

// inPlace reports whether an open file is the one that its path names.
func inPlace(file *os.File, path string) bool {
	held, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(held, named)
}
