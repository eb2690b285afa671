package controller

import (
	"errors"
	"fmt"

	"github.com/autosched/autosched/workload"
)

// ErrEpoch is the error of a request that belongs to another life of the store.
var ErrEpoch = errors.New("belongs to another epoch of the store")

// EpochError is an ErrEpoch with the present epoch.
type EpochError struct {
	Now Epoch
	why string
}

func (e *EpochError) Error() string { return ErrEpoch.Error() + ": " + e.why }

// Unwrap returns ErrEpoch.
func (e *EpochError) Unwrap() error { return ErrEpoch }

// Epoch identifies a life of a store. A store that was restored, copied or started anew continues
// under a new one.
type Epoch = workload.Epoch

// Epoch returns that of the store.
func (s *Service) Epoch() Epoch { return s.o.Store.Epoch() }

// CheckEpoch returns an EpochError if an epoch is not that of the store.
func (s *Service) CheckEpoch(e Epoch) error {
	now := s.Epoch()
	why := fmt.Sprintf("epoch %d is not that of this store, %d, which may be an older copy", e.Counter, now.Counter)
	switch {
	case e == now:
		return nil
	case e.Counter < now.Counter:
		why = fmt.Sprintf("epoch %d ended, the present one is %d: read the configuration again", e.Counter, now.Counter)
	}
	return &EpochError{now, why}
}
