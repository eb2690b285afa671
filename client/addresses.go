package client

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"
)

// addresses of nodes of a service, of which a connection uses one: the first that answers. One that says that no node
// leads is left for the others.
type addresses struct {
	all []string

	mu      sync.Mutex
	conn    resolver.ClientConn // nil before the first call
	without string              // the one that is left, "" for none
}

// addressesScheme is the scheme of the target that addresses resolve.
const addressesScheme = "autosched"

// Build, Scheme, ResolveNow and Close implement [resolver.Builder] and [resolver.Resolver].
func (a *addresses) Build(_ resolver.Target, conn resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver,
	error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conn = conn
	return a, a.update()
}

func (a *addresses) Scheme() string { return addressesScheme }

func (a *addresses) ResolveNow(resolver.ResolveNowOptions) {}

func (a *addresses) Close() {}

// update offers the addresses, those after the one that is left first.
func (a *addresses) update() error {
	var state resolver.State
	at := slices.Index(a.all, a.without) + 1
	for _, address := range append(slices.Clone(a.all[at:]), a.all[:at]...) {
		if address != a.without {
			state.Addresses = append(state.Addresses, resolver.Address{Addr: address, ServerName: address})
		}
	}
	return a.conn.UpdateState(state)
}

// leave has the connection go to another node than the one at an address, if that is still in use.
func (a *addresses) leave(address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn != nil && address != a.without && slices.Contains(a.all, address) {
		a.without = address
		_ = a.update() // a fault shows in the next call
	}
}

// options have calls leave nodes that cannot answer.
func (a *addresses) options() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithResolvers(a), grpc.WithChainUnaryInterceptor(a.unary),
		grpc.WithChainStreamInterceptor(a.stream)}
}

// reasonNoLeader is that of calls which were not made.
const reasonNoLeader = "NO_LEADER"

// judge leaves the node of a call that failed, and reports whether the call was not made.
func (a *addresses) judge(p *peer.Peer, err error) (again bool) {
	if status.Code(err) != codes.Unavailable || p == nil || p.Addr == nil {
		return false
	}
	a.leave(a.named(p.Addr.String()))
	return Reason(err) == reasonNoLeader
}

// named is the address, as it was given, that a connection goes to.
func (a *addresses) named(at string) string {
	for _, address := range a.all {
		if tcp, err := net.ResolveTCPAddr("tcp", address); address == at || err == nil && tcp.String() == at {
			return address
		}
	}
	return ""
}

// unary makes a call that was not made at other nodes, at each once.
func (a *addresses) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, options ...grpc.CallOption) (err error) {
	for range a.all {
		var p peer.Peer
		err = invoke(ctx, method, req, reply, conn, append(slices.Clone(options), grpc.Peer(&p))...)
		if !a.judge(&p, err) {
			return err
		}
	}
	return err
}

// stream leaves the node of a stream that fails, for the next one.
func (a *addresses) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
	open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, conn, method, options...)
	if err != nil {
		return nil, err
	}
	return judgedStream{s, a}, nil
}

// judgedStream has the node of its failure left.
type judgedStream struct {
	grpc.ClientStream
	addresses *addresses
}

// RecvMsg implements [grpc.ClientStream].
func (s judgedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil {
		p, _ := peer.FromContext(s.Context())
		s.addresses.judge(p, err)
	}
	return err
}

// split returns the addresses of an Endpoint.
func split(address string) []string { return strings.Split(address, ",") }
