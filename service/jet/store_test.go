package jet

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/storetest"
)

// testLog shows the messages of a test that fails.
func testLog(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// start starts a node that is alone.
func start(t *testing.T, dir string) *Engine {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	e, err := Start(ctx, &Config{Node: "a", Dir: dir, Embedded: &Embedded{}}, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func openReplica(t *testing.T, e *Engine, o Options) *Replica {
	t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "replica")
	}
	o.Log = testLog(t)
	r, err := Open(t.Context(), e, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func lead(t *testing.T, r *Replica, term uint64) *Store {
	t.Helper()
	s, err := r.Lead(t.Context(), term)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// The store keeps the contract, whether the same replica leads again, it is opened anew, or a new one is made from the
// log or from an archive.
func TestConformance(t *testing.T) {
	for name, again := range map[string]func(t *testing.T, e *Engine, r *Replica) *Replica{
		"same": func(_ *testing.T, _ *Engine, r *Replica) *Replica { return r },
		"opened anew": func(t *testing.T, e *Engine, r *Replica) *Replica {
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			return openReplica(t, e, r.o)
		},
		"from the log": func(t *testing.T, e *Engine, _ *Replica) *Replica {
			return openReplica(t, e, Options{})
		},
		"from an archive": func(t *testing.T, e *Engine, r *Replica) *Replica {
			if err := r.Archive(t.Context()); err != nil {
				t.Fatal(err)
			}
			return openReplica(t, e, Options{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) (controller.Store, func() controller.Store) {
				e := start(t, t.TempDir())
				r := openReplica(t, e, Options{})
				term := uint64(1)
				s := lead(t, r, term)
				return s, func() controller.Store {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					term++
					r = again(t, e, r)
					s = lead(t, r, term)
					return s
				}
			})
		})
	}
}

func testLogless() *slog.Logger { return slog.New(slog.DiscardHandler) }
