//go:build unix

package search

import (
	"syscall"
	"time"
)

// cpuTime is what the process has used so far. On a machine that others use too
// it says more than the clock.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
