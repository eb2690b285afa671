package controller

import (
	"errors"
	"fmt"

	"github.com/autosched/autosched/workload"
)

// ErrEpoch is the error of a request that belongs to another life of the store.
var ErrEpoch = errors.New("belongs to another epoch of the store")

// Epoch identifies a life of a store. A store that was restored, copied or started anew continues
// under a new one.
type Epoch = workload.Epoch

// Epoch returns that of the store.
func (s *Service) Epoch() Epoch { return s.o.Store.Epoch() }

// CheckEpoch returns an ErrEpoch if an epoch is not that of the store.
func (s *Service) CheckEpoch(e Epoch) error {
	switch now := s.Epoch(); {
	case e == now:
		return nil
	case e.Counter < now.Counter:
		return fmt.Errorf("%w: epoch %d ended, the present one is %d: read the configuration again", ErrEpoch,
			e.Counter, now.Counter)
	default:
		return fmt.Errorf("%w: epoch %d is not that of this store, %d, which may be an older copy", ErrEpoch, e.Counter,
			now.Counter)
	}
}
