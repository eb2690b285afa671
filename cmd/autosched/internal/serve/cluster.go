package serve

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/autosched/autosched/api/access"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/service"
	"github.com/autosched/autosched/service/jet"
	"github.com/autosched/autosched/service/node"
)

// leaseTime is the time without a renewal after which another node takes over: a pause of a process or a network of a
// few seconds changes no leader.
const leaseTime = 8 * time.Second

// checkCluster checks the flags of a node of several.
func (o *serveOptions) checkCluster() error {
	if o.startAnew || o.newEpoch {
		return cli.Usage(errors.New("--cluster: --start-anew and --new-epoch are of a service of one process"))
	}
	if _, err := jet.ReadConfig(o.cluster); err != nil {
		return cli.Usage(fmt.Errorf("--cluster: %w", err))
	}
	return nil
}

// runNode serves as a node of several until the context ends or the node cannot go on.
func (o *serveOptions) runNode(ctx context.Context, log *slog.Logger) (err error) {
	config, err := jet.ReadConfig(o.cluster)
	if err != nil {
		return fmt.Errorf("--cluster: %w", err)
	}
	o.dir = cmp.Or(o.dir, filepath.Join(config.Dir, "local"))
	first, err := o.service(log) // before anything is written
	if err != nil {
		return err
	}
	files, err := access.Open(o.access.Files, access.Options{Log: log})
	if err != nil {
		return err
	}
	spans, end, err := o.spans(ctx, log)
	if err != nil {
		return err
	}
	defer end()
	engine, err := jet.Start(ctx, config, log)
	if err != nil {
		return err
	}
	defer engine.Close()
	replica, err := jet.Open(ctx, engine, jet.Options{Dir: config.Replica(), Log: log, Now: o.now})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, replica.Close()) }()
	no := node.Options{Name: config.Node, Bucket: bucket{engine.Lease()}, Peer: config.Peer, Lease: leaseTime,
		Follow: replica.Run,
		Lead: func(ctx context.Context, term uint64) (node.Store, error) {
			s, err := replica.Lead(ctx, term)
			if err != nil {
				return nil, err // not a Store of nil
			}
			return s, nil
		},
		Lag:  replica.Lag,
		Copy: copied{replica},
		Reader: func(c service.Copy) (*service.Reader, error) {
			return service.NewReader(c, service.ReaderOptions{Server: first.Server, Access: files, Log: log})
		},
		Service: func() (so service.Options, release func(), err error) {
			if so, err = o.service(log); err != nil {
				return so, nil, err
			}
			so.Evaluators, release, err = o.openEvaluators(so.Evaluations())
			spans(&so)
			return so, release, err
		},
		Access: files, Message: o.limits.Message, Drain: o.drain, Log: log, Notify: notify, NewID: rand.Text,
		Listen: func() (net.Listener, error) { return o.access.Listen("--listen", o.listen) }}
	if o.operations != "" {
		no.Web = func() (net.Listener, error) { return o.access.Listen("--operations", o.operations) }
	}
	return node.Run(ctx, no)
}

// copied is the copy of the records of a node.
type copied struct{ *jet.Replica }

// View and Changed implement [node.Copy].
func (c copied) View() (service.Copy, uint64) { return c.Replica.View() }

func (c copied) Changed() (schedulers, reports []string, all bool) {
	changes := c.Replica.Changed()
	return changes.Schedulers, changes.Reports, changes.All
}

// bucket is that of the lease.
type bucket struct{ kv jetstream.KeyValue }

// Get implements [node.Bucket].
func (b bucket) Get(ctx context.Context, key string) ([]byte, uint64, error) {
	e, err := b.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, 0, node.ErrNone
	}
	if err != nil {
		return nil, 0, err
	}
	return e.Value(), e.Revision(), nil
}

// Put implements [node.Bucket].
func (b bucket) Put(ctx context.Context, key string, value []byte, after uint64) (revision uint64, err error) {
	if after == 0 {
		revision, err = b.kv.Create(ctx, key, value)
	} else {
		revision, err = b.kv.Update(ctx, key, value, after)
	}
	var refused *jetstream.APIError
	if errors.Is(err, jetstream.ErrKeyExists) ||
		errors.As(err, &refused) && refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
		return 0, node.ErrChanged
	}
	return revision, err
}
