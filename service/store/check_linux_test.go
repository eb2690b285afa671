package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// checkDir names the directory that a child checks.
const checkDir = "AUTOSCHED_CHECK_DIR"

// checkAlone is check in a process of its own, with bounds of memory and time.
func (a *acked) checkAlone(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0])
	child.Env = append(os.Environ(), checkDir+"="+dir)
	var lines strings.Builder
	for _, b := range a.batches {
		fmt.Fprintf(&lines, "e %s %d\n", b.name, b.events)
	}
	fmt.Fprintf(&lines, "c %d\n", a.revision)
	child.Stdin = strings.NewReader(lines.String())
	if out, err := child.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %.200s", err, out)
	}
	return nil
}

// checkChild checks a directory for the acknowledged records in its input.
func checkChild(dir string) {
	const memory = 4 << 30
	err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: memory, Max: memory})
	var a acked
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		err = errors.Join(err, a.line(in.Text()))
	}
	if err == nil {
		_, err = a.check(dir)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
