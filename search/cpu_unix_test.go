//go:build unix

package search

import (
	"syscall"
	"time"
)

// cpuTime is the processor time of the process, which depends less on the load of the
// machine than wall time.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
