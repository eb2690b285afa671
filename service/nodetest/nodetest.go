// Package nodetest proves the promises of a service of several nodes: it runs nodes as processes in network namespaces,
// loads them through clients, injects faults, and checks the history that the clients saw. Only tests import it.
package nodetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Violations collects the broken promises of a service.
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

// ClockOffset reads a file that SetClock wrote; 0 if there is none.
func ClockOffset(file string) (time.Duration, error) {
	text, err := os.ReadFile(filepath.Clean(file))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return time.ParseDuration(string(text))
}
