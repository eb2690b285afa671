//go:build unix

package replay

import (
	"syscall"
	"time"
)

// processTime is what this process has used of all processors so far.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic("replay: getrusage of this process: " + err.Error())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
