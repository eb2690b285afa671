package access

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
)

// Errors of identities.
var (
	// ErrIdentity says that a caller has no identity that counts.
	ErrIdentity = errors.New("caller not identified")
	// ErrRole is the error of a request that the caller's role does not allow.
	ErrRole = errors.New("not allowed")
)

// Credential is the evidence of a caller's identity in a call.
type Credential struct {
	chains [][]*x509.Certificate // verified in the handshake
	uris   []string              // of the certificate
	token  *[sha256.Size]byte    // nil if the call brings none
	local  *Caller               // of this process
}

// LocalCredential is that of a caller in this process, which needs no certificate.
func LocalCredential(c Caller) Credential { return Credential{local: &c} }

// NewCredential reads a connection's state, nil without TLS, and an authorization
// header, "" without one.
func NewCredential(state *tls.ConnectionState, authorization string) (Credential, error) {
	var c Credential
	if state != nil && len(state.VerifiedChains) > 0 {
		c.chains = state.VerifiedChains
		for _, u := range c.chains[0][0].URIs {
			c.uris = append(c.uris, u.String())
		}
	}
	if authorization != "" {
		kind, text, _ := strings.Cut(authorization, " ")
		if !strings.EqualFold(kind, "bearer") || text == "" {
			return c, fmt.Errorf("%w: the authorization header is not 'Bearer TOKEN'", ErrIdentity)
		}
		sum := sha256.Sum256([]byte(text))
		c.token = &sum
	}
	return c, nil
}

// identify finds the caller. A token counts before a certificate: it belongs to
// the call, the certificate to the connection.
func (m *material) identify(c Credential, now time.Time) (Caller, error) {
	if c.local != nil {
		return *c.local, nil
	}
	if m.roles == nil {
		return Caller{Role: Admin}, nil
	}
	if c.token != nil {
		caller, ok := m.roles.token(*c.token)
		if !ok {
			return Caller{}, fmt.Errorf("%w: the token is not known, or no longer", ErrIdentity)
		}
		return caller, nil
	}
	switch {
	case len(c.chains) == 0:
		return Caller{}, fmt.Errorf("%w: call with a client certificate or a token", ErrIdentity)
	case !m.trusts(c.chains, now):
		return Caller{}, fmt.Errorf("%w: the client certificate expired, or its authority is no longer trusted",
			ErrIdentity)
	case len(c.uris) != 1:
		return Caller{}, fmt.Errorf("%w: the client certificate has %d URIs as subject alternative names, not one",
			ErrIdentity, len(c.uris))
	}
	caller, ok := m.roles.byURI[c.uris[0]]
	if !ok {
		return Caller{}, fmt.Errorf("%w: %s has no role", ErrRole, c.uris[0])
	}
	return caller, nil
}

// trusts reports whether one of the chains, verified in a handshake before, still
// counts: none of its certificates expired and its root is still an authority.
func (m *material) trusts(chains [][]*x509.Certificate, now time.Time) bool {
	for _, chain := range chains {
		good := false
		for _, root := range m.authorities {
			good = good || root.Equal(chain[len(chain)-1])
		}
		for _, c := range chain {
			good = good && !now.After(c.NotAfter)
		}
		if good {
			return true
		}
	}
	return false
}

type callerKey struct{}

// NewContext returns a context with the caller.
func NewContext(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// FromContext returns the caller of a request; the zero Caller outside of one.
func FromContext(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// LogHandler adds the request's id and its caller, if it has a name, to records.
func LogHandler(h slog.Handler) slog.Handler { return logHandler{h} }

type logHandler struct{ slog.Handler }

func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	var attrs []slog.Attr
	if c := FromContext(ctx); c.Name != "" {
		attrs = append(attrs, slog.String("caller", c.Name))
	}
	if id := RequestID(ctx); id != "" {
		attrs = append(attrs, slog.String("request_id", id))
	}
	if len(attrs) > 0 {
		r = r.Clone()
		r.AddAttrs(attrs...)
	}
	return h.Handler.Handle(ctx, r)
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }

// WithAddress returns a context of a request by HTTP with the address that its caller connected to.
func WithAddress(ctx context.Context, at net.Addr) context.Context {
	return context.WithValue(ctx, http.LocalAddrContextKey, at)
}

type requestKey struct{}

// WithRequestID returns a context with the id of a request.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

// RequestID returns the id of a request, "" outside of one.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}
