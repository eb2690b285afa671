//go:build unix

// Package cputime reads the processor time of this process. Measurements that use
// it hold on a machine with other load.
package cputime

import (
	"syscall"
	"time"
)

// Process is the user and system time of this process on all processors.
func Process() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic("cputime: getrusage of this process: " + err.Error())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
