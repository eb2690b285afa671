// Package stores opens the stores of the service for tests, so that one test runs on each of them.
package stores

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/service/jet"
	"github.com/autosched/autosched/service/reports"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/service/studies"
	"github.com/autosched/autosched/service/workloads"
)

// Store is common to the stores.
type Store interface {
	controller.Store
	studies.Store
	reports.Store
	workloads.Store
	prometheus.Collector
	Secret() []byte
	Backup(ctx context.Context, out io.Writer) (*store.Manifest, error)
	Compact(ctx context.Context) (before, after int64, err error)
	Health() (store.Health, error)
	Close() error
}

// nodes says that Nodes runs the present test.
var nodes atomic.Bool

// Nodes runs tests, which open their stores by Open, on the store of several nodes. They run alone.
func Nodes(t *testing.T, tests ...func(*testing.T)) {
	nodes.Store(true)
	t.Cleanup(func() { nodes.Store(false) })
	for _, test := range tests {
		name := runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name()
		t.Run(name[strings.LastIndex(name, ".")+1:], test)
	}
}

// Open opens the store of a directory: a node that is alone in a test of Nodes, else that of one process.
func Open(dir string, o store.Options) (Store, error) {
	if nodes.Load() {
		return openNode(dir, o)
	}
	s, err := store.Open(dir, o)
	if err != nil {
		return nil, err // not a Store of nil
	}
	return s, nil
}

// Records returns where a store of Open keeps its records.
func Records(dir string) string {
	if nodes.Load() {
		return config(dir).Replica()
	}
	return dir
}

func config(dir string) *jet.Config {
	return &jet.Config{Node: "a", Dir: filepath.Join(dir, "node"), Embedded: &jet.Embedded{}}
}

// node is a node that leads.
type node struct {
	*jet.Store
	replica *jet.Replica
	engine  *jet.Engine
}

func openNode(dir string, o store.Options) (s Store, err error) {
	if o.StartAnew || o.NewEpoch || o.Shed != nil || o.Adopt || o.Replica {
		return nil, errors.New("stores: an option that nodes have not")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := config(dir)
	n := &node{}
	if n.engine, err = jet.Start(ctx, c, o.Log); err != nil {
		return nil, err
	}
	if n.replica, err = jet.Open(ctx, n.engine, jet.Options{Dir: c.Replica(), Log: o.Log, Now: o.Now,
		NewID: o.NewID}); err != nil {
		n.engine.Close()
		return nil, err
	}
	// A term must be above every former one.
	if n.Store, err = n.replica.Lead(ctx, uint64(time.Now().UnixNano())); err != nil {
		err = errors.Join(err, n.replica.Close())
		n.engine.Close()
		return nil, err
	}
	return n, nil
}

// Close stops the node.
func (n *node) Close() error {
	err := errors.Join(n.Store.Close(), n.replica.Close())
	n.engine.Close()
	return err
}
