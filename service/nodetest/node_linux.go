package nodetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Node is a node as a process on a disk and in a network namespace of its own.
type Node struct {
	Index int
	Host  string // its address
	Disk  *Disk
	Log   string // file of the output of its processes

	net     *Net
	command func(n *Node) *exec.Cmd

	mu      sync.Mutex
	process *os.Process
	ended   chan struct{} // closed once process has ended
	meant   bool          // to end
	own     int           // processes that ended without being meant to
}

// NewNode returns a node that is not started. command is run in the node's network namespace.
func NewNode(network *Net, index int, disk *Disk, log string, command func(n *Node) *exec.Cmd) *Node {
	return &Node{Index: index, Host: network.Host(index), Disk: disk, Log: log, net: network, command: command}
}

// ClockFile names the file with the offset of the node's clock.
func (n *Node) ClockFile() string { return n.Log + ".clock" }

// SetClock sets how far the node's clock is off. The node must poll [ClockOffset].
func (n *Node) SetClock(offset time.Duration) error {
	next := n.ClockFile() + ".next"
	return errors.Join(os.WriteFile(next, []byte(offset.String()), 0o600), os.Rename(next, n.ClockFile()))
}

// Start starts the node's process.
func (n *Node) Start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	inner := n.command(n)
	path, err := exec.LookPath(inner.Path)
	if err != nil {
		return err
	}
	c := exec.Command("ip", "netns", "exec", n.net.Namespace(n.Index), path)
	c.Args = append(c.Args, inner.Args[1:]...)
	c.Env = inner.Env
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := os.OpenFile(n.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	c.Stderr, c.Stdout = log, log
	if err := c.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	n.process, n.ended, n.meant = c.Process, ended, false
	go func() {
		_ = c.Wait()
		n.mu.Lock()
		defer n.mu.Unlock()
		if !n.meant {
			n.own++
		}
		close(ended)
	}()
	return nil
}

// Signal sends a signal to the node's process.
func (n *Node) Signal(s syscall.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return errors.New("the node was never started")
	}
	n.meant = n.meant || s == syscall.SIGKILL || s == syscall.SIGTERM
	err := n.process.Signal(s)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	return err
}

// Stop ends the node's process by a signal and waits for its end.
func (n *Node) Stop(s syscall.Signal) error {
	if err := n.Signal(s); err != nil {
		return err
	}
	select {
	case <-n.ended:
	case <-time.After(30 * time.Second):
		if err := n.Signal(syscall.SIGKILL); err != nil {
			return err
		}
		<-n.ended
	}
	return nil
}

// Running reports whether the node's process lives.
func (n *Node) Running() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return false
	}
	select {
	case <-n.ended:
		return false
	default:
		return true
	}
}

// Ended is how many of the node's processes ended by themselves.
func (n *Node) Ended() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.own
}

// Cost has the resources that a process has used.
type Cost struct {
	CPU     time.Duration
	Memory  int64 // resident, in bytes
	Flushes int64 // of its disk
}

// Cost reads the cost of the node's process so far.
func (n *Node) Cost() (c Cost, err error) {
	n.mu.Lock()
	pid := n.process.Pid
	n.mu.Unlock()
	if c.Flushes, err = n.Disk.Flushes(); err != nil {
		return c, err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return c, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	f := strings.Fields(rest)
	if len(f) < 22 {
		return c, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(f))
	}
	user, err1 := strconv.ParseInt(f[11], 10, 64)
	system, err2 := strconv.ParseInt(f[12], 10, 64)
	pages, err3 := strconv.ParseInt(f[21], 10, 64)
	const tick = 10 * time.Millisecond // USER_HZ of every architecture that Go's Linux has
	c.CPU, c.Memory = time.Duration(user+system)*tick, pages*int64(os.Getpagesize())
	return c, errors.Join(err1, err2, err3)
}
