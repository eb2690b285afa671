package clitest

import (
	"bytes"
	"sync"
)

// SharedBuffer is output that is read while it is written.
type SharedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *SharedBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *SharedBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
