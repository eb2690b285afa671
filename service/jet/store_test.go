package jet

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
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

// closing answers the first entry, which it stores, as a server does whose store is closed.
type closing struct {
	jetstream.JetStream
	asked int
}

func (c *closing) PublishMsg(ctx context.Context, m *nats.Msg, o ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	ack, err := c.JetStream.PublishMsg(ctx, m, o...)
	if c.asked++; c.asked == 1 && err == nil {
		return nil, &jetstream.APIError{Code: 503, ErrorCode: 10077, Description: server.ErrStoreClosed.Error()}
	}
	return ack, err
}

// An entry that one server refuses as its store is closed, and the others store, is no refused write.
func TestClosedStoreIsAskedAgain(t *testing.T) {
	e := start(t, t.TempDir())
	s := lead(t, openReplica(t, e, Options{}), 1)
	c := &closing{JetStream: e.js}
	e.js = c
	if err := s.Note(t.Context(), audit.Record{Resource: "schedulers/a"}); err != nil || c.asked < 2 {
		t.Errorf("asked %d times: %v", c.asked, err)
	}
	add(t, s, 0, 1)
	notes := 0
	if err := s.Audit(0, false, func(int64, []byte, error) bool { notes++; return true }); err != nil || notes != 1 {
		t.Errorf("%d notes: %v", notes, err)
	}
}

func testLogless() *slog.Logger { return slog.New(slog.DiscardHandler) }
