package nodetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/bits"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inside calls f on a thread in a network namespace. The thread ends with it.
func inside[T any](t *testing.T, namespace string, f func() (T, error)) T {
	t.Helper()
	type result struct {
		v   T
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is of no other use
		ns, err := os.Open("/run/netns/" + namespace)
		if err == nil {
			defer ns.Close()
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		}
		var r result
		if r.err = err; err == nil {
			r.v, r.err = f()
		}
		done <- r
	}()
	r := <-done
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.v
}

// TestCuts: a cut drops one direction, or one port, also of connections that are open; they go on after its repair.
func TestCuts(t *testing.T) {
	Require(t)
	n, err := NewNet(2)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	var ends [2]net.Listener
	var conns [2]net.Conn // from node 1 to ports of node 0
	for i, port := range []string{"1000", "1001"} {
		ends[i] = inside(t, n.Namespace(0), func() (net.Listener, error) {
			return net.Listen("tcp", n.Host(0)+":"+port)
		})
		defer ends[i].Close()
		go func() {
			for {
				c, err := ends[i].Accept()
				if err != nil {
					return
				}
				go func() { _, _ = io.Copy(c, c) }()
			}
		}()
		conns[i] = inside(t, n.Namespace(1), func() (net.Conn, error) {
			return net.Dial("tcp", ends[i].Addr().String())
		})
		defer conns[i].Close()
	}
	answers := func(i int, within time.Duration) bool {
		t.Helper()
		if err := conns[i].SetDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		if _, err := conns[i].Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		_, err := conns[i].Read(make([]byte, 1))
		return err == nil
	}
	const soon, long = 300 * time.Millisecond, 10 * time.Second
	cut := func(from, to int, ports ...int) {
		t.Helper()
		if err := n.Cut(from, to, ports...); err != nil {
			t.Fatal(err)
		}
	}
	repair := func(from, to int, ports ...int) {
		t.Helper()
		if err := n.Repair(from, to, ports...); err != nil {
			t.Fatal(err)
		}
	}
	if !answers(0, long) || !answers(1, long) {
		t.Fatal("the nodes do not reach each other")
	}
	for _, from := range []int{0, 1} {
		cut(from, 1-from)
		if answers(0, soon) {
			t.Errorf("cut from %d: a packet passed", from)
		}
		repair(from, 1-from)
		if !answers(0, long) {
			t.Fatalf("cut from %d repaired: nothing passes", from)
		}
		for range 2 { // the bytes that are sent again
			_ = conns[0].SetDeadline(time.Now().Add(soon))
			_, _ = conns[0].Read(make([]byte, 1))
		}
	}
	cut(0, 1, 1000)
	if answers(0, soon) || !answers(1, long) {
		t.Error("a cut of port 1000 does not drop it alone")
	}
	repair(0, 1, 1000)
	if err := n.Unplug(0, true); err != nil {
		t.Fatal(err)
	}
	if answers(1, soon) {
		t.Error("a node that is unplugged answers")
	}
	if err := n.Unplug(0, false); err != nil {
		t.Fatal(err)
	}
	if !answers(1, long) {
		t.Error("a node that is plugged in again does not answer")
	}
}

// TestDisk: a disk fills, stalls and takes damage of one bit, and counts flushes.
func TestDisk(t *testing.T) {
	Require(t)
	d, err := NewDisk(filepath.Join(t.TempDir(), "disk"), 64)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	path := filepath.Join(d.Dir, "file")
	text := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	write := func() error {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		_, err = f.Write(text)
		return errors.Join(err, f.Sync(), f.Close())
	}
	before, err := d.Flushes()
	if err := errors.Join(err, write()); err != nil {
		t.Fatal(err)
	}
	if after, err := d.Flushes(); err != nil || after <= before {
		t.Errorf("%d flushes, then %d, %v", before, after, err)
	}
	if where, err := d.Flip(rand.New(rand.NewPCG(1, 1)), func(p string) bool { return p == path }); err != nil ||
		!strings.HasPrefix(where, "file at ") {
		t.Errorf("%q, %v", where, err)
	}
	damaged, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flipped := 0
	for i := range text {
		flipped += bits.OnesCount8(text[i] ^ damaged[i])
	}
	if flipped != 1 {
		t.Errorf("%d bits differ", flipped)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := d.Fill(); err != nil {
		t.Fatal(err)
	}
	if err := write(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("on a full disk: %v", err)
	}
	if err := d.Drain(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	slow := make(chan error, 1)
	go func() { slow <- d.Slow(ctx, time.Second, rand.New(rand.NewPCG(2, 2))) }()
	longest := time.Duration(0)
	for ctx.Err() == nil {
		began := time.Now()
		if err := write(); err != nil {
			t.Fatal(err)
		}
		longest = max(longest, time.Since(began))
	}
	if err := <-slow; err != nil || longest < 100*time.Millisecond {
		t.Errorf("the longest write took %v, %v", longest, err)
	}
	if err := write(); err != nil {
		t.Error(err)
	}
}

// TestCutDisk: a power cut leaves what was synced, and of the rest a share.
func TestCutDisk(t *testing.T) {
	RequireFUSE(t)
	d, err := NewCutDisk(filepath.Join(t.TempDir(), "disk"), 64)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	text := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	write := func(name string, sync bool) {
		t.Helper()
		f, err := os.Create(filepath.Join(d.Dir, name))
		if err == nil {
			_, err = f.Write(text)
		}
		if err == nil && sync {
			err = f.Sync()
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for _, percent := range []int{0, 50, 100} {
		write("synced", true)
		write("not", false)
		if err := d.Restart(d.Cut(rand.New(rand.NewPCG(1, 1)), percent)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(d.Dir, "synced")); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%d %%: what was synced has %d bytes, %v", percent, len(got), err)
		}
		if got, err := os.ReadFile(filepath.Join(d.Dir, "not")); err == nil && bytes.Equal(got, text) {
			t.Errorf("%d %%: what no program synced is there", percent)
		}
	}
}

// TestNode: a node's process is killed, stopped and started again, and its end by itself is noticed.
func TestNode(t *testing.T) {
	Require(t)
	network, err := NewNet(1)
	if err != nil {
		t.Fatal(err)
	}
	defer network.Close()
	dir := t.TempDir()
	d, err := NewDisk(filepath.Join(dir, "disk"), 16)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	seconds := "100"
	n := NewNode(network, 0, d, filepath.Join(dir, "log"), func(*Node) *exec.Cmd {
		return exec.Command("sleep", seconds)
	})
	for range 2 {
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
		c, err := n.Cost()
		for deadline := time.Now().Add(time.Minute); err == nil && c.Memory == 0 && time.Now().Before(deadline); {
			c, err = n.Cost() // none for a moment in an exec
		}
		if !n.Running() || err != nil || c.Memory == 0 {
			t.Errorf("%+v, %v", c, err)
		}
		if err := n.Stop(syscall.SIGKILL); err != nil || n.Running() || n.Ended() != 0 {
			t.Errorf("%v, %d ended by themselves", err, n.Ended())
		}
	}
	seconds = "0"
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); n.Ended() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the end of a process is not noticed")
		}
	}
	if err := n.SetClock(-time.Hour); err != nil {
		t.Fatal(err)
	}
	if off, err := ClockOffset(n.ClockFile()); off != -time.Hour || err != nil {
		t.Errorf("%v, %v", off, err)
	}
}
