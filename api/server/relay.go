package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	"github.com/autosched/autosched/api/access"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
)

// relay calls the API within the process on behalf of callers by HTTP: each call has the credential of its own caller,
// which the guard identifies as it does one by gRPC. Metadata has the number of the credential; nothing but a relay
// connects to its listener.
type relay struct {
	server      *Server
	listener    *bufconn.Listener
	credentials sync.Map // access.Credential by number
	last        atomic.Uint64

	mu     sync.Mutex
	conns  []*relayConn
	closed bool
}

// relayKey is the metadata with the number of a credential.
const relayKey = "autosched-relay"

// relayInfo says that a relay calls.
type relayInfo struct {
	credentials.CommonAuthInfo
	relay *relay
}

// AuthType implements [credentials.AuthInfo].
func (relayInfo) AuthType() string { return "relay" }

func (r *relay) credentialOf(ctx context.Context) (access.Credential, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if v := md.Get(relayKey); len(v) == 1 {
		if c, ok := r.credentials.Load(v[0]); ok {
			return c.(access.Credential), nil
		}
	}
	return access.Credential{}, fmt.Errorf("%w: a relayed call without a credential", access.ErrIdentity)
}

// lend keeps a credential until it is forgotten.
func (r *relay) lend(c access.Credential) (number string, forget func()) {
	number = strconv.FormatUint(r.last.Add(1), 10)
	r.credentials.Store(number, c)
	return number, func() { r.credentials.Delete(number) }
}

// relayConn is a connection with its calls under way.
type relayConn struct {
	*grpc.ClientConn
	calls int
}

// take returns a connection that has room for a call, which ends with done.
func (r *relay) take() (c *relayConn, done func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.conns {
		if one.calls < maxStreams {
			c = one
			break
		}
	}
	switch {
	case r.closed:
		return nil, nil, rpc.Status(controller.ErrClosed)
	case c == nil:
		conn, err := dialLocal(r.listener, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
		if err != nil {
			return nil, nil, err
		}
		if r.conns == nil {
			go func() { _ = r.server.grpc.Serve(localListener{r.listener, relayInfo{private, r}}) }()
		}
		c = &relayConn{ClientConn: conn}
		r.conns = append(r.conns, c)
	}
	c.calls++
	return c, sync.OnceFunc(func() {
		r.mu.Lock()
		c.calls--
		r.mu.Unlock()
	}), nil
}

// Invoke implements [grpc.ClientConnInterface].
func (r *relay) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	c, done, err := r.take()
	if err != nil {
		return err
	}
	defer done()
	return c.Invoke(ctx, method, args, reply, opts...)
}

// NewStream implements [grpc.ClientConnInterface].
func (r *relay) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (
	grpc.ClientStream, error) {
	c, done, err := r.take()
	if err != nil {
		return nil, err
	}
	stream, err := c.NewStream(ctx, desc, method, append(opts, grpc.OnFinish(func(error) { done() }))...)
	if err != nil {
		done()
	}
	return stream, err
}

func (r *relay) close() (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, c := range r.conns {
		err = errors.Join(err, c.Close())
	}
	return err
}
