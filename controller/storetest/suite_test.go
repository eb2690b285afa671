package storetest

import (
	"testing"

	"github.com/autosched/autosched/controller"
)

func TestMemory(t *testing.T) {
	Run(t, func(*testing.T) (controller.Store, func() controller.Store) {
		s := controller.Store(NewMemory())
		return s, func() controller.Store { return s }
	})
}
