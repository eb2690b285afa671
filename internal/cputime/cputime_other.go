//go:build !unix

package cputime

import "time"

var began = time.Now()

// Process is wall time where the system has no getrusage.
func Process() time.Duration { return time.Since(began) }
