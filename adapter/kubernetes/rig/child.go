package rig

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// A child is a program of the rig that runs. It ends with its parent.
type child struct {
	name, log string
	cmd       *exec.Cmd
	done      chan struct{}
}

func start(name, log, program string, env []string, args ...string) (*child, error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c := &child{name: name, log: log, cmd: exec.Command(program, args...), done: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = f, f
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = c.cmd.Wait() // how it ended is in its state
		close(c.done)
	}()
	return c, nil
}

// ended says how the program ended by itself, with the end of its log; empty while it runs.
func (c *child) ended() string {
	select {
	case <-c.done:
		return fmt.Sprintf("%s: %s: %s", c.name, c.cmd.ProcessState, c.tail())
	default:
		return ""
	}
}

// kill ends the program and returns once it has ended.
func (c *child) kill() {
	if c == nil {
		return
	}
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.done
}

// tail returns the last lines of the log.
func (c *child) tail() string {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}

// freePorts returns ports of this machine on which no program listens.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all stay taken until each is known
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

const (
	pollInterval = 20 * time.Millisecond
	startTimeout = 2 * time.Minute
)
