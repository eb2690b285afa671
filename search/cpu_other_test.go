//go:build !unix

package search

import "time"

var began = time.Now()

// cpuTime is the wall time since the start, as the system reports no processor time.
func cpuTime() time.Duration { return time.Since(began) }
