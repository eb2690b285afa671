//go:build !unix

package cputime

import "time"

var began = time.Now()

// Process returns wall time, as the system has no getrusage.
func Process() time.Duration { return time.Since(began) }
