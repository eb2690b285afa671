package nodetest

import (
	"context"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// blockSize is that of the file system on a disk: a power cut leaves a block as it was or as it was written.
const blockSize = 4096

// blocks is the content of a disk, which keeps apart what was flushed. It is served as the only file of a FUSE file
// system, on which a loop device lies.
type blocks struct {
	fs.Inode
	mu      sync.Mutex
	size    int64
	live    map[int64]*[blockSize]byte // by place; blocks are never changed, only replaced
	flushed map[int64]*[blockSize]byte
	dirty   map[int64]bool // written since the last flush
}

func newBlocks(size int64) *blocks {
	return &blocks{size: size, live: map[int64]*[blockSize]byte{}, flushed: map[int64]*[blockSize]byte{},
		dirty: map[int64]bool{}}
}

// image is the content after a power cut now, with a share of the blocks that are not flushed.
func (b *blocks) image(random *rand.Rand, percent int) map[int64]*[blockSize]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := maps.Clone(b.flushed)
	for _, at := range slices.Sorted(maps.Keys(b.dirty)) {
		if random.IntN(100) < percent {
			out[at] = b.live[at]
		}
	}
	return out
}

// mount shows the blocks as file disk of a directory.
func (b *blocks) mount(dir string) (*fuse.Server, error) {
	root := &fs.Inode{}
	second := time.Second
	return fs.Mount(dir, root, &fs.Options{AttrTimeout: &second, EntryTimeout: &second,
		MountOptions: fuse.MountOptions{DirectMount: true, MaxWrite: 1 << 20, Name: "autosched-test",
			FsName: "autosched-test"},
		OnAdd: func(ctx context.Context) {
			root.AddChild("disk", root.NewPersistentInode(ctx, b, fs.StableAttr{Mode: fuse.S_IFREG}), true)
		}})
}

func (b *blocks) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

func (b *blocks) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = fuse.S_IFREG|0o600, uint64(b.size)
	return 0
}

func (b *blocks) Setattr(ctx context.Context, h fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return b.Getattr(ctx, h, out)
}

func (b *blocks) Read(_ context.Context, _ fs.FileHandle, dest []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := max(0, min(int64(len(dest)), b.size-at))
	for done := int64(0); done < n; {
		block, from := (at+done)/blockSize, (at+done)%blockSize
		part := dest[done:min(n, done+blockSize-from)]
		if have := b.live[block]; have != nil {
			copy(part, have[from:])
		} else {
			clear(part)
		}
		done += int64(len(part))
	}
	return fuse.ReadResultData(dest[:n]), 0
}

func (b *blocks) Write(_ context.Context, _ fs.FileHandle, data []byte, at int64) (uint32, syscall.Errno) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at+int64(len(data)) > b.size {
		return 0, syscall.ENOSPC
	}
	for done := 0; done < len(data); {
		block, from := (at+int64(done))/blockSize, (at+int64(done))%blockSize
		next := &[blockSize]byte{}
		if had := b.live[block]; had != nil {
			*next = *had
		}
		done += copy(next[from:], data[done:])
		b.live[block], b.dirty[block] = next, true
	}
	return uint32(len(data)), 0
}

func (b *blocks) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	b.mu.Lock()
	defer b.mu.Unlock()
	for at := range b.dirty {
		b.flushed[at] = b.live[at]
	}
	clear(b.dirty)
	return 0
}

var (
	_ fs.NodeOpener    = (*blocks)(nil)
	_ fs.NodeGetattrer = (*blocks)(nil)
	_ fs.NodeSetattrer = (*blocks)(nil)
	_ fs.NodeReader    = (*blocks)(nil)
	_ fs.NodeWriter    = (*blocks)(nil)
	_ fs.NodeFsyncer   = (*blocks)(nil)
)

// closeOnExec keeps a child from keeping the device of FUSE, and with it the mount, alive.
func closeOnExec() error {
	all, err := os.ReadDir("/proc/self/fd")
	for _, e := range all {
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); to == "/dev/fuse" {
			if fd, err := strconv.Atoi(e.Name()); err == nil {
				syscall.CloseOnExec(fd)
			}
		}
	}
	return err
}
