package store

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/service/studies"
	"github.com/autosched/autosched/service/workloads"
	"github.com/autosched/autosched/workload"
)

// A backup is a tar archive: config.db, the other files of the directory in order of name, the files of findings, and
// last a manifest with their sizes and SHA-256.
const (
	backupVersion = 2 // 1 without findings
	manifestFile  = "manifest.json"
	maxManifest   = 16 << 20
)

// ConfigFile holds all but events.
const ConfigFile = configFile

// ErrBackup says that a file is no backup, or not as it was written.
var ErrBackup = errors.New("it is not a whole backup")

// Manifest lists the files of a backup.
type Manifest struct {
	Version int            `json:"version"` // of the archive
	Layout  uint64         `json:"layout"`  // of the directory
	Reader  uint64         `json:"reader"`  // the least version of its readers
	Created time.Time      `json:"created"`
	Files   []ManifestFile `json:"files"`
}

// ManifestFile is a file of a backup.
type ManifestFile struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256"`
}

// Size is that of all files, in bytes.
func (m *Manifest) Size() (n int64) {
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// Backup writes an archive of the store while it is in use. Events follow config.db, so that every reference in it
// resolves. Files that may be written meanwhile are copied within the directory first: no commit waits for the copy,
// nor for out.
func (r *Store) Backup(ctx context.Context, out io.Writer) (*Manifest, error) {
	r.dropMu.RLock()
	defer r.dropMu.RUnlock()
	r.backupMu.RLock()
	defer r.backupMu.RUnlock()
	m := &Manifest{Version: 1, Layout: layoutVersion, Created: r.now().UTC()}
	archive := tar.NewWriter(&ctxWriter{ctx, out})
	names := []string{configFile}
	for i := 0; i < len(names); i++ {
		err := r.withCopy(names[i], func(f *os.File) error { return m.add(archive, names[i], f) })
		if errors.Is(err, os.ErrNotExist) && names[i] != configFile {
			continue // dropped since it was listed
		}
		if err != nil {
			return nil, fmt.Errorf("store: backup of %s: %w", names[i], err)
		}
		if i == 0 { // after config.db is read
			_, reader, err := r.versions()
			if err != nil {
				return nil, fmt.Errorf("store: %w", err)
			}
			others, err := backupNames(r.dir)
			if err != nil {
				return nil, fmt.Errorf("store: %w", err)
			}
			m.Reader = reader
			names = append(names, others...)
		}
	}
	text, err := json.Marshal(m)
	if err == nil {
		err = archive.WriteHeader(&tar.Header{Name: manifestFile, Mode: 0o600, Size: int64(len(text)),
			ModTime: m.Created})
	}
	if err == nil {
		_, err = archive.Write(text)
	}
	if err == nil {
		err = archive.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("store: backup: %w", err)
	}
	return m, nil
}

// backupNames returns the files of a backup besides config.db.
func backupNames(dir string) (names []string, err error) {
	live, err := segmentNames(dir)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		switch name := e.Name(); {
		case dayOf(name) != "" && !slices.Contains(live, name): // a checkpoint stands for it
		case !e.Type().IsRegular(), name == configFile, name == reserveFile, name == manifestFile,
			strings.HasPrefix(name, "."), strings.HasSuffix(name, newSuffix),
			strings.HasSuffix(name, compactSuffix), strings.HasSuffix(name, orphanSuffix):
		default:
			names = append(names, name)
		}
	}
	found, globErr := fs.Glob(os.DirFS(dir), FindingsFolder+"/*.json")
	return append(names, found...), errors.Join(err, globErr)
}

// backupPrefix is of the copies of files that are in use.
const backupPrefix = ".backup-"

// withCopy calls f with an immutable file: a copy, or the file itself if nothing writes to it. A file with damaged
// pages is not copied.
func (r *Store) withCopy(name string, f func(*os.File) error) error {
	r.segmentMu.RLock()
	inUse := name == configFile || r.aux(name) != nil || r.segment != nil && name == r.segmentName
	r.segmentMu.RUnlock()
	if inUse || strings.HasPrefix(name, segmentPrefix+r.now().UTC().Format(dayLayout)) {
		copied, err := os.CreateTemp(r.dir, backupPrefix+"*")
		if err != nil {
			return storageError(err)
		}
		defer copied.Close()
		pages := func(tx *bolt.Tx) error {
			r.reached(name)
			if _, err := tx.WriteTo(copied); err != nil {
				return err
			}
			return orderMetas(copied, tx.DB().Info().PageSize)
		}
		switch s := r.aux(name); {
		case name == configFile:
			err = r.viewConfig(pages)
		case s != nil:
			err = r.viewAux(s, pages)
		default:
			err = r.copySegment(name, copied.Name())
		}
		if err := os.Remove(copied.Name()); err != nil { // the open file stays
			return err
		}
		if err == nil {
			return f(copied)
		}
		if !errors.Is(err, ErrCorrupt) || name == configFile {
			return storageError(err)
		}
	}
	file, err := os.Open(filepath.Join(r.dir, name))
	if err != nil {
		return err
	}
	defer file.Close()
	return f(file)
}

// copySegment copies the records that a segment has now, those of a scheduler by chunks: a commit waits for the read of
// one.
func (r *Store) copySegment(name, to string) error {
	db, err := bolt.Open(to, 0o600, &bolt.Options{Timeout: lockTimeout, NoSync: true})
	if err != nil {
		return err
	}
	var buckets []string // with that of the layout
	err = r.view(name, func(tx *bolt.Tx) error {
		return tx.ForEach(func(bucket []byte, _ *bolt.Bucket) error {
			buckets = append(buckets, string(bucket))
			return nil
		})
	})
	for _, bucket := range buckets {
		last := uint64(0)
		for from := []byte{}; from != nil && err == nil; {
			var chunk [][2][]byte
			if err = r.view(name, func(tx *bolt.Tx) (err error) {
				chunk, from, err = recordsFrom(tx.Bucket([]byte(bucket)), from, &last)
				return err
			}); err != nil {
				break
			}
			r.reached(name)
			err = db.Update(func(tx *bolt.Tx) error {
				b, err := tx.CreateBucketIfNotExists([]byte(bucket))
				if err != nil {
					return err
				}
				b.FillPercent = ascending
				for _, one := range chunk {
					err = errors.Join(err, b.Put(one[0], one[1]))
				}
				return errors.Join(err, b.SetSequence(last))
			})
		}
	}
	if err == nil { // an empty commit, so that both meta pages know the content
		err = db.Update(func(*bolt.Tx) error { return nil })
	}
	return errors.Join(err, db.Close())
}

// recordsFrom copies records from a key on, without the events after the last, which is that of the bucket if it is 0.
// next is the key to go on from, nil at the end.
func recordsFrom(b *bolt.Bucket, from []byte, last *uint64) (chunk [][2][]byte, next []byte, err error) {
	if b == nil { // purged meanwhile
		return nil, nil, nil
	}
	if *last == 0 {
		*last = b.Sequence()
	}
	c, before := b.Cursor(), []byte(nil)
	for k, v := c.Seek(from); k != nil; k, v = c.Next() {
		if !follows(k, before, from) {
			return nil, nil, &CorruptError{Key: fmt.Sprintf("%x", k), Why: "it is out of order"}
		}
		before = k
		if len(chunk) == replayChunk {
			return chunk, bytes.Clone(k), nil
		}
		if len(k) == eventKeySize && binary.BigEndian.Uint64(k[8:]) > *last {
			continue
		}
		chunk = append(chunk, [2][]byte{bytes.Clone(k), bytes.Clone(v)})
	}
	if before == nil && len(from) > 0 {
		return nil, nil, &CorruptError{Key: fmt.Sprintf("%x", from), Why: "it is not found again"}
	}
	return chunk, nil, nil
}

// add copies a file into the archive, as long as it is now.
func (m *Manifest) add(archive *tar.Writer, name string, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if path.Dir(name) == FindingsFolder {
		m.Version = backupVersion
	}
	h := &tar.Header{Name: name, Mode: 0o600, Size: info.Size(), ModTime: m.Created}
	if err := archive.WriteHeader(h); err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(archive, sum), f, info.Size()); err != nil {
		return err
	}
	m.Files = append(m.Files, ManifestFile{Name: name, Size: info.Size(), SHA256: hex.EncodeToString(sum.Sum(nil))})
	return nil
}

// ctxWriter fails once its context ends.
type ctxWriter struct {
	ctx context.Context
	out io.Writer
}

func (w *ctxWriter) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.out.Write(p)
}

// VerifyBackup reads an archive and compares it with its manifest. A difference is an ErrBackup.
func VerifyBackup(in io.Reader) (*Manifest, error) {
	return readBackup(in, func(string) (io.WriteCloser, error) { return nopCloser{io.Discard}, nil })
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// readBackup writes each file of an archive to the writer that create returns, and compares all with the manifest.
func readBackup(in io.Reader, create func(name string) (io.WriteCloser, error)) (*Manifest, error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %w", ErrBackup, fmt.Errorf(format, args...))
	}
	archive := tar.NewReader(in)
	var found []ManifestFile
	for {
		h, err := archive.Next()
		if err == io.EOF {
			return nil, bad("it has no manifest: it was cut short")
		}
		if err != nil {
			return nil, bad("%w", err)
		}
		if h.Name == manifestFile {
			break
		}
		base := strings.TrimPrefix(h.Name, FindingsFolder+"/")
		if h.Typeflag != tar.TypeReg || base != filepath.Base(base) || strings.HasPrefix(base, ".") ||
			h.Name == reserveFile {
			return nil, bad("%q cannot be part of one", h.Name)
		}
		if slices.ContainsFunc(found, func(f ManifestFile) bool { return f.Name == h.Name }) {
			return nil, bad("%s is there twice", h.Name)
		}
		out, err := create(h.Name)
		if err != nil {
			return nil, err
		}
		sum := sha256.New()
		n, err := copyFile(out, archive, sum)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.Name, err)
		}
		found = append(found, ManifestFile{Name: h.Name, Size: n, SHA256: hex.EncodeToString(sum.Sum(nil))})
	}
	var m Manifest
	if err := json.NewDecoder(io.LimitReader(archive, maxManifest)).Decode(&m); err != nil {
		return nil, bad("%s: %w", manifestFile, err)
	}
	if err := checkVersions(m.Layout, m.Reader); err != nil {
		return nil, err
	}
	switch {
	case m.Version > backupVersion:
		return nil, fmt.Errorf("%w: archive version %d, this one knows up to %d", ErrNewer, m.Version, backupVersion)
	case len(m.Files) == 0 || m.Files[0].Name != configFile:
		return nil, bad("it does not begin with %s", configFile)
	case len(found) != len(m.Files):
		return nil, bad("it has %d files, and its manifest %d", len(found), len(m.Files))
	}
	for i, want := range m.Files {
		if found[i] != want {
			return nil, bad("%s is not as it was written: SHA-256 %.16s, want that of %s, %.16s", found[i].Name,
				found[i].SHA256, want.Name, want.SHA256)
		}
	}
	return &m, nil
}

func copyFile(out io.WriteCloser, in io.Reader, sum hash.Hash) (int64, error) {
	n, err := io.Copy(io.MultiWriter(out, sum), in)
	if err != nil && !errors.Is(storageError(err), ErrFull) {
		err = fmt.Errorf("%w: %w", ErrBackup, err)
	}
	return n, errors.Join(storageError(err), out.Close())
}

// stagingDir is the folder in which Restore prepares the files.
const stagingDir = ".restore"

// Restore makes a store of an archive, in a directory that must be empty or missing. The archive is compared with
// its manifest and the store is opened before a file gets its name; after an error the directory is unchanged.
func Restore(in io.Reader, dir string) (m *Manifest, err error) {
	return restore(in, dir, Options{NewEpoch: true, Adopt: true})
}

// RestoreReplica makes a replica of an archive, as Restore does, which goes on with the log from the place of the
// archive on.
func RestoreReplica(in io.Reader, dir string) (m *Manifest, err error) {
	return restore(in, dir, Options{Replica: true, Adopt: true})
}

func restore(in io.Reader, dir string, o Options) (m *Manifest, err error) {
	_, missing := os.Stat(dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("%s is not empty (%s): name another directory, or move these files away", dir,
			entries[0].Name())
	}
	staging := filepath.Join(dir, stagingDir)
	if err := os.Mkdir(staging, 0o700); err != nil {
		return nil, storageError(err)
	}
	defer func() {
		err = errors.Join(err, os.RemoveAll(staging))
		switch {
		case err == nil:
			err = atomicfile.SyncDir(dir)
		case missing != nil:
			_ = os.Remove(dir) // fails if a file has its name
		}
	}()
	m, err = readBackup(in, func(name string) (io.WriteCloser, error) {
		to := filepath.Join(staging, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return nil, storageError(err)
		}
		f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, storageError(err)
		}
		return syncedFile{f}, nil
	})
	if err != nil {
		return nil, err
	}
	if err := initRestored(staging, o); err != nil {
		return nil, err
	}
	for _, f := range slices.Backward(m.Files) { // config.db, which makes it a store, is the last
		to := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return nil, err
		}
		if err := os.Rename(filepath.Join(staging, f.Name), to); err != nil {
			return nil, err
		}
		if err := errors.Join(atomicfile.SyncDir(filepath.Dir(to)), atomicfile.SyncDir(dir)); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// initRestored opens a restored store for the first time and reads config.db.
func initRestored(dir string, o Options) error {
	s, err := Open(dir, o)
	if err != nil {
		return err
	}
	_, _, _, err = s.Load()
	return errors.Join(err, s.Close())
}

// syncedFile is on disk once it is closed.
type syncedFile struct{ *os.File }

func (f syncedFile) Close() error { return errors.Join(f.Sync(), f.File.Close()) }

// Report is the result of Inspect.
type Report struct {
	// Layout is the directory's, and Reader the least version of its readers; 0 where config.db cannot be read.
	Layout, Reader uint64
	// Replica says that the directory follows the log of a cluster, of which it has all to entry Last, at least.
	Replica    bool
	Last       uint64
	Schedulers []controller.Saved
	Studies    []studies.Saved
	// StudyDamage has a CorruptError for each study or trial that cannot be read.
	StudyDamage []controller.Damage
	Files       []FileReport
	Others      []string // files and folders that are not part of a store
}

// FileReport is a file of a store.
type FileReport struct {
	Name   string
	Size   int64 // bytes
	Events int   // that can be read
	// Damage is nil if all of the file can be read.
	Damage error
}

// Inspect reads all files of a directory and writes nothing. The error is ErrLocked while a service uses it, and
// ErrNewer for a directory of a newer version.
func Inspect(dir string) (*Report, error) {
	r := newStore(dir)
	r.now, r.readOnly = time.Now, true
	var report Report
	var kept []workloads.Saved
	file := func(name string) (*FileReport, error) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		report.Files = append(report.Files, FileReport{Name: name, Size: info.Size()})
		return &report.Files[len(report.Files)-1], nil
	}
	f, err := file(configFile)
	switch {
	case errors.Is(err, os.ErrNotExist):
		report.Files = append(report.Files, FileReport{Name: configFile, Damage: ErrLost})
	case err != nil:
		return nil, err
	case f.Size == 0:
		f.Damage = ErrLost
	default:
		r.config, err = r.openDB(configFile, true)
		if errors.Is(err, ErrLocked) || errors.Is(err, ErrNewer) {
			return nil, err
		}
		if f.Damage = err; err == nil {
			defer r.config.Close()
			kept, f.Damage = r.inspectConfig(&report)
		}
	}
	names, err := segmentNames(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		f, err := file(name)
		if err != nil {
			return nil, err
		}
		found, err := r.replaySegment(name, "", 0, func(string, workload.Event) error { f.Events++; return nil })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		f.Damage = found.Err
	}
	for _, name := range auxFiles {
		f, err := file(name)
		switch {
		case errors.Is(err, os.ErrNotExist): // before the first record
			if name == workloadsFile && len(kept) > 0 {
				report.Files = append(report.Files, FileReport{Name: name, Damage: fmt.Errorf("%w: %d workloads have no jobs",
					err, len(kept))})
			}
		case err != nil:
			return nil, err
		default:
			defer r.closeAux(r.aux(name))
			for _, s := range report.Schedulers {
				check := r.checkAux
				if name == workloadsFile { // texts that no record refers to do not count
					check = func(_ *auxFile, uid string) error { return r.checkWorkloads(kept, s.Scheduler.ID, uid) }
				}
				f.Damage = errors.Join(f.Damage, check(r.aux(name), s.Scheduler.UID))
			}
		}
	}
	logs, err := auditFiles(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range logs {
		f, err := file(name)
		if err != nil {
			return nil, err
		}
		f.Damage = r.viewAudit(name, func(b *bolt.Bucket) (damage error) {
			err := ascend(b, auditBucket, func(key, record []byte) error {
				if _, err := openRecord(key, record); err != nil {
					damage = errors.Join(damage, &CorruptError{File: name, Bucket: auditBucket, Key: recordName(key),
						Why: err.Error()})
				}
				return nil
			})
			return errors.Join(damage, err)
		})
		f.Damage = cmp.Or(f.Damage, r.metaDamage(name))
	}
	for i := range report.Files { // records may be missing without a trace
		if f := &report.Files[i]; isRecords(f.Name) && f.Damage == nil {
			f.Damage = r.checkFile(f.Name, true)
		}
	}
	names = slices.Concat(names, logs, []string{configFile, reserveFile}, auxFiles)
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if !slices.Contains(names, e.Name()) {
			report.Others = append(report.Others, e.Name())
		}
	}
	return &report, err
}

// inspectConfig reads config.db into a report. It returns the workloads and the damage.
func (r *Store) inspectConfig(report *Report) (kept []workloads.Saved, damage error) {
	note := func(found []controller.Damage, err error) {
		damage = errors.Join(damage, err)
		for _, d := range found {
			damage = errors.Join(damage, d.Err)
		}
	}
	var found []controller.Damage
	var err error
	report.Layout, report.Reader, err = r.versions()
	note(nil, err)
	report.Last, report.Replica, err = r.logged()
	note(nil, err)
	report.Schedulers, _, found, err = r.Load()
	note(found, err)
	report.Studies, report.StudyDamage, err = r.LoadStudies()
	note(nil, err)
	kept, found, err = r.LoadWorkloads()
	note(found, err)
	return kept, damage
}
