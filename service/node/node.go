// Package node runs a node of a service of several. One node leads: it has the lease, opens the store and runs the
// service. Every node takes calls in and forwards them to the leader. The store refuses the writes of a former leader,
// and its gate the answers, whatever its clock shows.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc"

	"github.com/autosched/autosched/api/access"
	"github.com/autosched/autosched/api/server"
	"github.com/autosched/autosched/api/server/forward"
	"github.com/autosched/autosched/service"
	"github.com/autosched/autosched/service/store"
)

// Store is the store of a leader.
type Store interface {
	service.Store
	// Done is closed once the store takes no more writes of this leader.
	Done() <-chan struct{}
	// Acknowledged returns an entry of the log up to which all writes are whose callers had an answer before the call.
	Acknowledged() uint64
}

// Options of a node. All without a default are required.
type Options struct {
	Name   string // of the node
	Bucket Bucket
	// Peer is the address at which the other nodes reach this one.
	Peer string
	// Lease is the time without a renewal after which another node takes over.
	Lease time.Duration
	// Follow keeps the node's copy of the store until the context ends. An error ends the node.
	Follow func(ctx context.Context) error
	// Lead opens the store for a term; it is closed by the service.
	Lead func(ctx context.Context, term uint64) (Store, error)
	// Copy is what readers see of the node's copy, and Reader makes a reader of it.
	Copy   Copy
	Reader func(service.Copy) (*service.Reader, error)
	// Lag is the number of writes that the copy of the node lacks, if that is known.
	Lag func() (writes uint64, known bool)
	// Service returns the options of the service of a term, without its listeners and store, and a function that
	// releases them.
	Service func() (service.Options, func(), error)

	Access  *access.Source // of the fronts
	Message int            // most bytes of a request
	// Listen opens the listener of the API, Web that of HTTP; nil serves none.
	Listen, Web func() (net.Listener, error)
	Drain       time.Duration // of calls under way when the node stops
	Log         *slog.Logger
	Notify      func(state string) error // as of a service; not called if nil

	Elapsed func() time.Duration // of a clock that never goes back; that of the process if nil
	NewID   func() string        // names the process
}

// node is a node that runs.
type node struct {
	o        Options
	identity *forward.Identity
	lease    *lease
	front    *forward.Front
	metrics  *metrics
	reading  *reading
	leads    atomic.Pointer[led] // nil while the node does not lead

	serving  atomic.Bool // as the leader
	led      atomic.Int64
	notUntil time.Duration // no attempt to lead is made before
}

// Run serves until the context ends, or the node cannot go on.
func Run(ctx context.Context, o Options) (err error) {
	if o.Elapsed == nil {
		began := time.Now()
		o.Elapsed = func() time.Duration { return time.Since(began) }
	}
	if o.Notify == nil {
		o.Notify = func(string) error { return nil }
	}
	n := &node{o: o}
	if n.identity, err = forward.NewIdentity(o.Name); err != nil {
		return err
	}
	n.lease = &lease{bucket: o.Bucket, length: o.Lease, elapsed: o.Elapsed, log: o.Log, own: record{Node: o.Name,
		Process: o.NewID(), Address: o.Peer, Certificate: n.identity.Certificate()}}
	n.reading = &reading{copy: o.Copy, open: o.Reader, elapsed: o.Elapsed}
	n.front = forward.NewFront(n.identity, n.leader, &forward.Copy{Has: server.FromCopy, Read: n.read}, o.Log)
	defer n.front.Close()
	n.metrics = newMetrics(n)
	return n.run(ctx)
}

// leader is the node that calls are forwarded to.
func (n *node) leader() (forward.Leader, bool) {
	r, _, ok := n.lease.leader()
	return forward.Leader{Address: r.Address, Certificate: r.Certificate,
		Process: fmt.Sprint(r.Process, " ", r.Term)}, ok
}

// run opens the listeners and runs the parts. The lease is kept until the service has stopped, and the fronts and the
// copy of the store until the lease is given back.
func (n *node) run(ctx context.Context) (err error) {
	api, err := n.o.Listen()
	if err != nil {
		return err
	}
	defer api.Close()
	rpc := grpc.NewServer(append(server.Transport(n.o.Access, n.o.Message), n.front.Options()...)...)
	web := n.webServer()
	var pages net.Listener
	if n.o.Web != nil {
		if pages, err = n.o.Web(); err != nil {
			return err
		}
		defer pages.Close()
	}
	below, stop := context.WithCancel(context.WithoutCancel(ctx))
	failed := make(chan error, 5)
	var wait sync.WaitGroup
	part := func(what string, f func() error) {
		wait.Go(func() {
			if err := f(); err != nil && below.Err() == nil {
				failed <- fmt.Errorf("%s: %w", what, err)
			}
		})
	}
	part("access files", func() error { return n.o.Access.Run(below) })
	part("the copy of the store", func() error { return n.o.Follow(below) })
	part("the age of the copy", func() error { return n.learn(below) })
	part("the API", func() error { return rpc.Serve(netutil.LimitListener(api, server.MaxConnections)) })
	if pages != nil {
		part("HTTP", func() error {
			if err := web.Serve(service.WebListener(pages, n.o.Access)); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	leading, quit := context.WithCancel(ctx)
	defer quit()
	wait.Go(func() {
		select {
		case err := <-failed:
			failed <- err
			quit()
		case <-below.Done():
		}
	})
	n.o.Log.Info("node serving", "node", n.o.Name, "address", api.Addr().String(), "peer", n.o.Peer)
	if err := n.o.Notify("READY=1"); err != nil {
		n.o.Log.Warn("systemd does not learn that the node is ready", "err", err)
	}
	err = n.elect(leading)
	_ = n.o.Notify("STOPPING=1")
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.o.Drain)
	defer cancel()
	end := context.AfterFunc(deadline, rpc.Stop)
	streams := time.AfterFunc(min(n.o.Drain, streamsEnd), n.front.Close)
	rpc.GracefulStop()
	end()
	streams.Stop()
	_ = web.Shutdown(deadline)
	_ = web.Close()
	stop()
	wait.Wait()
	n.reading.end()
	select {
	case first := <-failed:
		err = errors.Join(err, first)
	default:
	}
	return err
}

// streamsEnd is the time of calls under way before streams, which do not end by themselves, are ended.
const streamsEnd = time.Second

// elect takes part in the lease until the context ends.
func (n *node) elect(ctx context.Context) error {
	if err := join(ctx, n.o.Bucket, n.o.Name, n.identity.Certificate()); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	keep := context.WithoutCancel(ctx)
	tick := time.NewTicker(n.lease.part(pollPart))
	defer tick.Stop()
	var term *term // nil while the node does not lead
	for {
		stopping := ctx.Err() != nil
		n.lease.step(keep, term == nil && !stopping && n.o.Elapsed() >= n.notUntil)
		n.front.Refresh()
		held := n.lease.held()
		switch {
		case term == nil && stopping:
			n.giveBack(keep)
			return nil
		case term == nil && held > 0:
			term = n.begin(held)
		case term != nil && held != term.number:
			term.cut()
		case term != nil && stopping:
			term.stop()
		}
		var ended <-chan error
		var stop <-chan struct{}
		if term != nil {
			ended = term.ended
		}
		if !stopping {
			stop = ctx.Done()
		}
		select {
		case err := <-ended:
			if err != nil {
				n.o.Log.Error("this node cannot lead; another one may", "err", err)
				n.notUntil = n.o.Elapsed() + n.o.Lease/2
			}
			term = nil
			n.giveBack(keep)
		case <-tick.C:
		case <-stop:
		}
	}
}

// giveBack releases the lease, if the node holds it.
func (n *node) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, n.lease.part(renewPart))
	defer cancel()
	n.lease.release(ctx)
}

// term is a time in which this node leads.
type term struct {
	number uint64
	stop   func()     // lets calls under way end
	cut    func()     // ends them
	ended  chan error // receives the outcome
}

// begin runs the service for a term.
func (n *node) begin(number uint64) *term {
	ctx, cancel := context.WithCancel(context.Background())
	t := &term{number: number, stop: cancel, ended: make(chan error, 1)}
	var gate atomic.Pointer[forward.Gate]
	t.cut = func() {
		cancel()
		if g := gate.Load(); g != nil {
			g.Cut()
		}
	}
	n.led.Add(1)
	n.o.Log.Info("this node leads", "node", n.o.Name, "term", number)
	go func() {
		err := n.serve(ctx, t, &gate)
		n.serving.Store(false)
		t.cut()
		if errors.Is(err, store.ErrClosed) { // another node leads
			n.o.Log.Warn("the term ended", "term", number, "err", err)
			err = nil
		}
		t.ended <- err
	}()
	return t
}

// serve runs the service until the context ends or the store takes no more writes.
func (n *node) serve(ctx context.Context, t *term, gate *atomic.Pointer[forward.Gate]) error {
	so, release, err := n.o.Service()
	if err != nil {
		return err
	}
	defer release()
	l, err := net.Listen("tcp", n.o.Peer)
	if err != nil {
		return err
	}
	g := forward.NewGate(l, n.identity, n.certificate, func() bool { return n.lease.held() == t.number }, n.place)
	gate.Store(g)
	defer g.Cut()
	var wait sync.WaitGroup
	defer wait.Wait()
	defer n.leads.Store(nil)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	so.Open = func(store.Options) (service.Store, error) {
		s, err := n.o.Lead(ctx, t.number)
		if err != nil {
			return nil, err
		}
		n.leads.Store(&led{t.number, s})
		wait.Go(func() {
			select {
			case <-s.Done():
				t.cut()
			case <-ctx.Done():
			}
		})
		return s, nil
	}
	so.Listen = func() (net.Listener, error) { return g.RPC, nil }
	if n.o.Web != nil {
		so.Web = func() (net.Listener, error) { return g.Web, nil }
	}
	so.Server.Forwarded = true
	so.Metrics = append(so.Metrics, n.metrics)
	so.Notify = func(state string) error {
		if state == "READY=1" {
			n.serving.Store(true)
		}
		return nil
	}
	wait.Go(func() {
		if err := g.Run(); err != nil {
			n.o.Log.Error("other nodes cannot reach this one", "err", err)
			t.cut()
		}
	})
	err = service.Run(ctx, so)
	g.Cut()
	cancel()
	return err
}

// certificate finds that of a node which calls the gate.
func (n *node) certificate(name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), n.lease.part(renewPart))
	defer cancel()
	text, _, err := n.o.Bucket.Get(ctx, membersPrefix+name)
	return text, err
}
