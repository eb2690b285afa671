package store

import (
	"testing"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) (controller.Store, func() controller.Store) {
		dir := t.TempDir()
		r := open(t, dir)
		return r, func() controller.Store {
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			r = open(t, dir)
			return r
		}
	})
}
