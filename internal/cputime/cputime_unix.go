//go:build unix

// Package cputime measures the CPU time of this process, which other load on the
// machine affects less than wall time.
package cputime

import (
	"syscall"
	"time"
)

// Process returns the user and system CPU time of this process, over all processors.
func Process() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic("cputime: getrusage of this process: " + err.Error())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
