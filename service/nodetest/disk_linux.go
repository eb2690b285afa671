package nodetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Disk is a file system of its own in a file.
type Disk struct {
	Dir    string // where it is mounted
	image  string
	blocks *blocks // nil of a disk whose power is not cut
}

// NewDisk makes and mounts an ext4 file system. It needs root.
func NewDisk(dir string, megabytes int) (*Disk, error) {
	d := &Disk{Dir: dir, image: dir + ".img"}
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.WriteFile(d.image, nil, 0o600)
	}
	if err == nil {
		err = os.Truncate(d.image, int64(megabytes)<<20)
	}
	if err == nil {
		err = d.format()
	}
	return d, err
}

// NewCutDisk makes and mounts a disk in memory whose power can be cut. It needs root and FUSE.
func NewCutDisk(dir string, megabytes int) (*Disk, error) {
	d := &Disk{Dir: dir}
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = d.serve(newBlocks(int64(megabytes) << 20))
	}
	if err == nil {
		err = d.format()
	}
	return d, err
}

// serve shows blocks as a file of a FUSE file system of its own, which becomes the disk's image.
func (d *Disk) serve(b *blocks) error {
	at, err := os.MkdirTemp(filepath.Dir(d.Dir), filepath.Base(d.Dir)+"-fuse-*")
	if err == nil {
		_, err = b.mount(at)
	}
	if err == nil {
		err = closeOnExec()
	}
	d.image, d.blocks = filepath.Join(at, "disk"), b
	return err
}

// format makes a file system, and mounts it.
func (d *Disk) format() error {
	if err := command("mkfs.ext4", "-q", "-m", "0", "-b", strconv.Itoa(blockSize), d.image); err != nil {
		return err
	}
	return d.mount()
}

func (d *Disk) mount() error { return command("mount", "-o", "loop", d.image, d.Dir) }

func command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Cut is the content of a disk after a power cut now, with a share of the blocks that are not flushed.
func (d *Disk) Cut(random *rand.Rand, percent int) (image map[int64]*[blockSize]byte) {
	return d.blocks.image(random, percent)
}

// Restart mounts the content of a cut in place of the present one. No process may have files open. The image is a new
// one, so that nothing that the kernel keeps of the former one is in it.
func (d *Disk) Restart(image map[int64]*[blockSize]byte) error {
	next := newBlocks(d.blocks.size)
	next.live, next.flushed = image, maps.Clone(image)
	err := d.unmount()
	if err == nil {
		err = d.serve(next)
	}
	if err == nil {
		err = d.mount()
	}
	return err
}

// ballast is the file that fills a disk.
const ballast = "ballast"

// Fill leaves no room on the disk.
func (d *Disk) Fill() error {
	f, err := os.OpenFile(filepath.Join(d.Dir, ballast), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	at := int64(0)
	for step := int64(64 << 20); step >= 4096; {
		switch err := unix.Fallocate(int(f.Fd()), 0, at, step); {
		case err == nil:
			at += step
		case errors.Is(err, unix.ENOSPC):
			step /= 2
		default:
			return fmt.Errorf("fill %s: %w", d.Dir, err)
		}
	}
	return nil
}

// Drain ends Fill.
func (d *Disk) Drain() error { return os.Remove(filepath.Join(d.Dir, ballast)) }

// fiFreeze and fiThaw are FIFREEZE and FITHAW of linux/fs.h.
const fiFreeze, fiThaw = 0xc0045877, 0xc0045878

// Slow makes writes to the disk wait again and again, each time up to stall, until the context ends.
func (d *Disk) Slow(ctx context.Context, stall time.Duration, random *rand.Rand) error {
	f, err := os.Open(d.Dir)
	if err != nil {
		return err
	}
	defer f.Close()
	for ctx.Err() == nil {
		if err := unix.IoctlSetInt(int(f.Fd()), fiFreeze, 0); err != nil {
			return fmt.Errorf("freeze %s: %w", d.Dir, err)
		}
		wait(ctx, time.Duration(random.Int64N(int64(stall))))
		if err := unix.IoctlSetInt(int(f.Fd()), fiThaw, 0); err != nil {
			return fmt.Errorf("thaw %s: %w", d.Dir, err)
		}
		wait(ctx, stall/10)
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Flip changes one bit of a file on the disk, drawn by size from those that choose accepts, and returns which.
func (d *Disk) Flip(random *rand.Rand, choose func(path string) bool) (where string, err error) {
	var files []string
	var sizes []int64
	total := int64(0)
	err = filepath.WalkDir(d.Dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || !choose(p) {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Size() > 0 {
			files, sizes, total = append(files, p), append(sizes, info.Size()), total+info.Size()
		}
		return err
	})
	if err != nil || total == 0 {
		return "", err
	}
	at := random.Int64N(total)
	for i, p := range files {
		if at >= sizes[i] {
			at -= sizes[i]
			continue
		}
		f, err := os.OpenFile(p, os.O_RDWR, 0)
		if err != nil {
			return "", err
		}
		defer f.Close()
		var b [1]byte
		if _, err = f.ReadAt(b[:], at); err == nil {
			b[0] ^= 1 << random.IntN(8)
			_, err = f.WriteAt(b[:], at)
		}
		rel, _ := filepath.Rel(d.Dir, p)
		return fmt.Sprintf("%s at %d of %d", rel, at, sizes[i]), errors.Join(err, f.Sync())
	}
	return "", nil
}

// Flushes is the number of times that a program's sync reached the disk.
func (d *Disk) Flushes() (int64, error) {
	var s unix.Stat_t
	if err := unix.Stat(d.Dir, &s); err != nil {
		return 0, err
	}
	text, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(s.Dev), unix.Minor(s.Dev)))
	if err != nil {
		return 0, err
	}
	const flushes = 15 // of Documentation/block/stat.rst, from 0
	f := strings.Fields(string(text))
	if len(f) <= flushes {
		return 0, fmt.Errorf("the kernel counts no flushes of %s", d.Dir)
	}
	return strconv.ParseInt(f[flushes], 10, 64)
}

// Close unmounts and removes the disk.
func (d *Disk) Close() error {
	err := d.unmount()
	if d.blocks == nil {
		err = errors.Join(err, os.Remove(d.image))
	}
	return err
}

// unmount unmounts the disk, and the FUSE file system of its image: that at once by name, and in fact when no process
// has the disk in a mount namespace of its own any more.
func (d *Disk) unmount() error {
	err := unmount(d.Dir)
	if d.blocks != nil {
		at := filepath.Dir(d.image)
		if err = errors.Join(err, unix.Unmount(at, unix.MNT_DETACH)); err == nil {
			err = os.Remove(at)
		}
	}
	return err
}

func unmount(dir string) error {
	err := unix.Unmount(dir, 0)
	for range 50 { // a process that was killed may hold it for a moment
		if !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(100 * time.Millisecond)
		err = unix.Unmount(dir, 0)
	}
	return err
}
