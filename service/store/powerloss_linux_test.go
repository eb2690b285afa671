package store

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/autosched/autosched/internal/testshared"
)

// A disk is a file system of one directory, in memory, that keeps its durable state apart: of a
// file the sectors at its last fsync, of the directory the names at its own. A power cut leaves any
// part of the rest. The process that writes to it is another one: a page fault on a mapped file
// waits for this one.

const sector = 512

type disk struct {
	mu     sync.Mutex
	live   map[string]*diskFile
	synced map[string]*diskFile
	// pending are the changes of names since the last fsync of the directory, in order: journals
	// keep it.
	pending []func(names map[string]*diskFile)
	// before is called with mu held before every operation that changes something.
	before func()
	// lies reports whether an fsync of a file, or of the directory, is acknowledged and not done.
	lies func(directory bool) bool
}

type diskFile struct {
	fs.Inode
	d            *disk
	live, synced []byte
	dirty        map[int]bool // sectors written since the last fsync
}

type diskRoot struct {
	fs.Inode
	d *disk
}

func newDisk(content map[string][]byte) *disk {
	d := &disk{live: map[string]*diskFile{}, before: func() {}, lies: func(bool) bool { return false }}
	for name, data := range content {
		d.live[name] = &diskFile{d: d, live: slices.Clone(data), synced: slices.Clone(data), dirty: map[int]bool{}}
	}
	d.synced = maps.Clone(d.live)
	return d
}

// image is the state after a power cut now, with a share of the writes that are not synced.
func (d *disk) image(rng *rand.Rand, percent int) map[string][]byte {
	applied := len(d.pending) * percent / 100
	if percent%100 != 0 {
		applied = rng.IntN(len(d.pending) + 1)
	}
	names := maps.Clone(d.synced)
	for _, change := range d.pending[:applied] {
		change(names)
	}
	out := map[string][]byte{}
	for name, f := range names {
		data := slices.Clone(f.synced)
		grow := func(n int) {
			data = append(data, make([]byte, max(0, n-len(data)))...)
		}
		if percent == 100 || percent > 0 && rng.IntN(2) == 0 {
			grow(len(f.live))
		}
		for _, s := range slices.Sorted(maps.Keys(f.dirty)) {
			if rng.IntN(100) < percent {
				end := min((s+1)*sector, len(f.live))
				grow(end)
				copy(data[s*sector:end], f.live[s*sector:end])
			}
		}
		out[name] = data
	}
	return out
}

// mount shows a disk at a path until the test unmounts it.
func (d *disk) mount(t *testing.T) (dir string, unmount func()) {
	t.Helper()
	dir = t.TempDir()
	second := time.Second
	root := &diskRoot{d: d}
	server, err := fs.Mount(dir, root, &fs.Options{AttrTimeout: &second, EntryTimeout: &second,
		MountOptions: fuse.MountOptions{DirectMount: true, Name: "autosched-test", FsName: "autosched-test"},
		OnAdd: func(ctx context.Context) {
			for name, f := range d.live {
				root.AddChild(name, root.NewPersistentInode(ctx, f, fs.StableAttr{Mode: fuse.S_IFREG}), true)
			}
		}})
	if err != nil {
		const hint = "no file system can be mounted with FUSE (%v): power cuts are not tried"
		if os.Getenv("AUTOSCHED_REQUIRE_FUSE") == "1" {
			t.Fatalf(hint, err)
		}
		t.Skipf(hint, err)
	}
	// A child that inherited the device would keep the mount alive without its server.
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range fds {
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); to == "/dev/fuse" {
			if fd, err := strconv.Atoi(e.Name()); err == nil {
				syscall.CloseOnExec(fd)
			}
		}
	}
	return dir, func() {
		t.Helper()
		if err := server.Unmount(); err != nil {
			t.Fatal(err)
		}
		server.Wait()
	}
}

func (r *diskRoot) change(f func(names map[string]*diskFile)) {
	r.d.before()
	f(r.d.live)
	r.d.pending = append(r.d.pending, f)
}

func (r *diskRoot) Create(ctx context.Context, name string, _, _ uint32, out *fuse.EntryOut) (
	*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	f := &diskFile{d: r.d, dirty: map[int]bool{}}
	r.change(func(names map[string]*diskFile) { names[name] = f })
	out.Mode = fuse.S_IFREG | 0o600
	return r.NewPersistentInode(ctx, f, fs.StableAttr{Mode: fuse.S_IFREG}), nil, 0, 0
}

func (r *diskRoot) Unlink(_ context.Context, name string) syscall.Errno {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	r.change(func(names map[string]*diskFile) { delete(names, name) })
	return 0
}

func (r *diskRoot) Rename(_ context.Context, name string, _ fs.InodeEmbedder, to string, _ uint32) syscall.Errno {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	r.change(func(names map[string]*diskFile) {
		if f := names[name]; f != nil {
			names[to] = f
			delete(names, name)
		}
	})
	return 0
}

func (r *diskRoot) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	r.d.before()
	if !r.d.lies(true) {
		r.d.synced, r.d.pending = maps.Clone(r.d.live), nil
	}
	return 0
}

func (f *diskFile) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, 0, 0
}

func (f *diskFile) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	out.Mode, out.Size = fuse.S_IFREG|0o600, uint64(len(f.live))
	return 0
}

func (f *diskFile) Setattr(ctx context.Context, h fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok {
		f.d.mu.Lock()
		f.d.before()
		if int(size) < len(f.live) {
			f.live = f.live[:size]
			maps.DeleteFunc(f.dirty, func(s int, _ bool) bool { return s*sector >= int(size) })
		} else {
			f.live = append(f.live, make([]byte, int(size)-len(f.live))...)
		}
		f.d.mu.Unlock()
	}
	return f.Getattr(ctx, h, out)
}

func (f *diskFile) Read(_ context.Context, _ fs.FileHandle, dest []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	n := 0
	if at < int64(len(f.live)) {
		n = copy(dest, f.live[at:])
	}
	return fuse.ReadResultData(dest[:n]), 0
}

func (f *diskFile) Write(_ context.Context, _ fs.FileHandle, data []byte, at int64) (uint32, syscall.Errno) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.d.before()
	if more := int(at) + len(data) - len(f.live); more > 0 {
		f.live = append(f.live, make([]byte, more)...)
	}
	copy(f.live[at:], data)
	for s := int(at) / sector; s*sector < int(at)+len(data); s++ {
		f.dirty[s] = true
	}
	return uint32(len(data)), 0
}

func (f *diskFile) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.d.before()
	if !f.d.lies(false) {
		f.synced = slices.Clone(f.live)
		clear(f.dirty)
	}
	return 0
}

// cut is an image with the acknowledgements before it.
type cut struct {
	what  string
	files map[string][]byte
	acked acked
	lied  bool // the disk was one that lies
}

// check opens the image.
func (c *cut) check(dir string) error {
	defer os.RemoveAll(dir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for name, data := range c.files {
		path := filepath.Join(dir, name)
		if name == reserveFile { // only its size counts
			f, err := os.Create(path)
			if err == nil {
				err = f.Truncate(int64(len(data)))
				_ = f.Close()
			}
			if err != nil {
				return err
			}
		} else if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
	if len(c.acked.batches) == 0 && c.acked.revision == 0 && c.acked.entry == 0 && c.files[configFile] == nil {
		return nil // before the store was there
	}
	if c.lied { // damaged pages may ask for any amount of memory
		return c.acked.checkAlone(dir)
	}
	_, err := c.acked.check(dir)
	return err
}

// powerCuts checks a number of images of disks under a process that writes, which is killed
// sometimes, and goes on after a cut sometimes. Disks begin with an image, or empty if it is nil. It returns
// the faults of images.
func powerCuts(t *testing.T, images int, first *cut,
	lies func(rng *rand.Rand, directory bool) bool) (wrong []string) {
	t.Helper()
	perDisk, perLife, every := 100, 25, 4
	var env []string
	if first != nil && first.acked.follows {
		env = append(env, crashFollow+"=1")
	} else if first != nil { // all operations of the upgrade, which are the first
		perDisk, perLife, every = 20, 20, 1
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0)) // guarded by disk.mu
	scratch := t.TempDir()
	var content map[string][]byte
	var before acked // on the disk from the start
	begin := func() {
		if content, before = nil, (acked{}); first != nil {
			content, before = first.files, first.acked
		}
	}
	begin()
	for done := 0; done < images; {
		d := newDisk(content)
		if lies != nil {
			d.lies = func(directory bool) bool { return lies(rng, directory) }
		}
		dir, unmount := d.mount(t)
		a := before
		a.batches = slices.Clone(before.batches)
		var lines sync.Mutex // guards a
		var last *cut
		for taken := 0; taken < perDisk && done < images; {
			cuts := make(chan *cut, 4)
			var enough atomic.Bool
			stop := func() { // with d.mu held
				if enough.CompareAndSwap(false, true) {
					close(cuts)
				}
			}
			d.mu.Lock()
			d.before = func() {
				if enough.Load() || rng.IntN(every) > 0 {
					return
				}
				lines.Lock()
				now := a
				now.batches = slices.Clip(a.batches)
				lines.Unlock()
				percent := 25 * rng.IntN(5)
				what := fmt.Sprintf("%d %% of what was not synced", percent)
				cuts <- &cut{what, d.image(rng, percent), now, lies != nil}
				if taken, done = taken+1, done+1; taken%perLife == 0 || done == images {
					stop()
				}
			}
			d.mu.Unlock()
			child := startCrashing(t, dir, env...)
			read := make(chan error, 1)
			go func() {
				var err error
				for child.lines.Scan() {
					lines.Lock()
					if e := a.line(child.lines.Text()); e != nil {
						err = e
					}
					lines.Unlock()
				}
				d.mu.Lock()
				stop() // the child may have ended by itself
				d.mu.Unlock()
				read <- err
			}()
			watchdog := time.AfterFunc(2*time.Minute, func() { _ = child.Process.Kill() })
			for c := range cuts {
				last = c
				if enough.Load() { // or it writes ahead of a slow machine
					_ = child.Process.Kill()
				}
				if err := c.check(filepath.Join(scratch, "image")); err != nil {
					wrong = append(wrong, fmt.Sprintf("%s: %v", c.what, err))
				}
			}
			watchdog.Stop()
			_ = child.Process.Kill()
			if err := <-read; err != nil {
				t.Fatal(err)
			}
			child.killed(t)
		}
		unmount()
		begin()
		// The next process goes on from the last cut sometimes, unless that has become large.
		if rng.IntN(2) == 0 && lies == nil && (first == nil || first.acked.follows) && len(last.files) < 100 {
			content, before = last.files, last.acked
		}
	}
	return wrong
}

// TestPowerCuts cuts the power of a process that writes events and revisions, at any of its
// operations: every acknowledged record is there, none is there by half, and the store opens. Disks
// that lie about fsync are found out, or the test would see nothing. AUTOSCHED_IMAGES is the number
// of images.
func TestPowerCuts(t *testing.T) {
	images := 600
	if testing.Short() {
		images = 200
	}
	for tally := testshared.NewTally(t, "AUTOSCHED_IMAGES", images); tally.Left() > 0; {
		n := min(600, tally.Left())
		for _, w := range powerCuts(t, n, nil, nil) {
			t.Error(w)
		}
		tally.Add(n)
	}
	if t.Failed() || testing.Short() { // under the race detector a process has no bound of memory
		return
	}
	for name, lies := range map[string]func(rng *rand.Rand, directory bool) bool{
		"an fsync in three of a file is a lie": func(rng *rand.Rand, directory bool) bool {
			return !directory && rng.IntN(3) == 0
		},
		"every fsync of the directory is a lie": func(_ *rand.Rand, directory bool) bool { return directory },
	} {
		wrong := powerCuts(t, 100, nil, lies)
		if len(wrong) == 0 {
			t.Errorf("%s, and the test sees nothing", name)
		}
		t.Logf("%s: %d of 100 images are wrong, such as %q", name, len(wrong), wrong[:min(3, len(wrong))])
	}
}

// TestPowerCutsOfAReplica cuts the power of a process that applies entries of a log, several at a time: the directory
// says how many it has, and goes on with the rest.
func TestPowerCutsOfAReplica(t *testing.T) {
	images := 200
	if testing.Short() {
		images = 60
	}
	for tally := testshared.NewTally(t, "AUTOSCHED_IMAGES", images); tally.Left() > 0; {
		n := min(200, tally.Left())
		for _, w := range powerCuts(t, n, &cut{acked: acked{follows: true}}, nil) {
			t.Error(w)
		}
		tally.Add(n)
	}
}

// TestPowerCutsWhileUpgrading cuts the power of a process that upgrades a directory of layout 1 and writes on: at
// every operation the directory is of one layout or the other and holds all of its records.
func TestPowerCutsWhileUpgrading(t *testing.T) {
	images := 100
	if testing.Short() {
		images = 40
	}
	dir := t.TempDir()
	r := openOn(t, dir, damageDay)
	for revision := int64(1); revision <= 3; revision++ {
		if err := r.Commit(t.Context(), audited(t, testSpace(t), revision)); err != nil {
			t.Fatal(err)
		}
	}
	_ = r.Close()
	asLayout1(t, dir)
	first := cut{files: map[string][]byte{}, acked: acked{revision: 3}}
	for name, text := range files(t, dir) {
		first.files[name] = []byte(text)
	}
	for tally := testshared.NewTally(t, "AUTOSCHED_IMAGES", images); tally.Left() > 0; {
		n := min(100, tally.Left())
		for _, w := range powerCuts(t, n, &first, nil) {
			t.Error(w)
		}
		tally.Add(n)
	}
}
