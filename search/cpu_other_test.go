//go:build !unix

package search

import "time"

var began = time.Now()

// cpuTime is the time since the begin where the system does not tell more.
func cpuTime() time.Duration { return time.Since(began) }
