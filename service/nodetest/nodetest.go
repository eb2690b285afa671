// Package nodetest proves what a service of several nodes promises: it runs nodes as processes in network namespaces,
// loads them through clients, injects faults, and checks the history that the clients saw. Only tests import it.
package nodetest

import (
	"fmt"
	"sync"
)

// Violations collects what a service did that it promises not to do.
type Violations struct {
	mu  sync.Mutex
	all []string
	n   int
}

// maxViolations bounds the texts that are kept; all are counted.
const maxViolations = 100

// Addf adds a violation.
func (v *Violations) Addf(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.n++; v.n <= maxViolations {
		v.all = append(v.all, fmt.Sprintf(format, args...))
	}
}

// Take returns the violations since the last call and their number, which may be larger.
func (v *Violations) Take() ([]string, int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	all, n := v.all, v.n
	v.all, v.n = nil, 0
	return all, n
}
