// Package forward passes the calls of the API that any node of the service accepts on to the node that leads. A Front
// accepts calls by gRPC and HTTP; a Gate is the leader's entrance, which only nodes pass. The evidence of the caller's
// identity goes along, and the leader judges it as if the caller had called there.
package forward

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/autosched/autosched/api/access"
)

// Keys of metadata and headers that a front sets, in place of any that a caller sends.
const (
	chainKey  = "autosched-chain-bin" // a verified chain of the caller's certificate, DER
	fromKey   = "autosched-from"      // address of the caller
	atKey     = "autosched-at"        // address that it called, of HTTP
	secureKey = "autosched-secure"    // set if its connection is encrypted, of HTTP
)

// Info marks connections that passed a gate.
type Info struct{ credentials.CommonAuthInfo }

// AuthType implements [credentials.AuthInfo].
func (Info) AuthType() string { return "node" }

// FromGate marks the connections of a gate.
func FromGate() Info {
	return Info{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
}

// chains are those of a connection in DER.
func chains(state *tls.ConnectionState) (out []string) {
	if state == nil {
		return nil
	}
	for _, chain := range state.VerifiedChains {
		var text []byte
		for _, c := range chain {
			text = append(text, c.Raw...)
		}
		out = append(out, string(text))
	}
	return out
}

// stateOf is the state of the connection that has the chains.
func stateOf(encoded []string) (*tls.ConnectionState, error) {
	state := &tls.ConnectionState{}
	for _, text := range encoded {
		chain, err := x509.ParseCertificates([]byte(text))
		if err != nil || len(chain) == 0 {
			return nil, fmt.Errorf("forwarded certificates: %w", errors.Join(err, errors.New("none")))
		}
		state.VerifiedChains = append(state.VerifiedChains, chain)
	}
	return state, nil
}

// State is that of the connection of a forwarded call's caller. The call must have passed a gate.
func State(ctx context.Context) (*tls.ConnectionState, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	return stateOf(md.Get(chainKey))
}

// address is a caller's, as text.
type address string

// Network and String implement [net.Addr].
func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// Context returns a context whose peer is the caller of a forwarded call; of any other call, the context as it is.
func Context(ctx context.Context) context.Context {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ctx
	}
	if _, ok := p.AuthInfo.(Info); !ok {
		return ctx
	}
	md, _ := metadata.FromIncomingContext(ctx)
	if from := md.Get(fromKey); len(from) == 1 {
		return peer.NewContext(ctx, &peer.Peer{Addr: address(from[0]), LocalAddr: p.LocalAddr, AuthInfo: p.AuthInfo})
	}
	return ctx
}

// outgoing returns a context with the metadata of a call and the evidence of its caller.
func outgoing(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	md = md.Copy()
	for _, key := range []string{":authority", "grpc-accept-encoding", chainKey, fromKey} {
		delete(md, key)
	}
	if p, ok := peer.FromContext(ctx); ok {
		md.Set(fromKey, p.Addr.String())
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			md.Set(chainKey, chains(&info.State)...)
		}
	}
	return metadata.NewOutgoingContext(ctx, md)
}

// sign sets the headers of a request that is passed on.
func sign(out *http.Request, in *http.Request) {
	for _, key := range []string{chainKey, fromKey, atKey, secureKey} {
		out.Header.Del(key)
	}
	for _, text := range chains(in.TLS) {
		out.Header.Add(chainKey, base64.StdEncoding.EncodeToString([]byte(text)))
	}
	out.Header.Set(fromKey, in.RemoteAddr)
	if at, ok := in.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		out.Header.Set(atKey, at.String())
	}
	if in.TLS != nil {
		out.Header.Set(secureKey, "1")
	}
}

// Handler has requests that passed a gate answered as if their callers had called the handler. Its listener must be
// that of a gate.
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var encoded []string
		for _, text := range r.Header.Values(chainKey) {
			der, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				http.Error(w, "forwarded certificates: "+err.Error(), http.StatusBadRequest)
				return
			}
			encoded = append(encoded, string(der))
		}
		state, err := stateOf(encoded)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx := r.Context()
		if at, err := net.ResolveTCPAddr("tcp", r.Header.Get(atKey)); err == nil {
			ctx = access.WithAddress(ctx, at)
		}
		from, secure := r.Header.Get(fromKey), r.Header.Get(secureKey) != ""
		r = r.Clone(ctx)
		r.RemoteAddr, r.TLS = from, nil
		if secure {
			r.TLS = state
		}
		for _, key := range []string{chainKey, fromKey, atKey, secureKey} {
			r.Header.Del(key)
		}
		next.ServeHTTP(w, r)
	})
}
