package server

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/autosched/autosched/api/access"
)

// Connect returns a connection within the process, for a part of it that is a client of the API:
// a caller of this name with the role of the scheduler. It ends with the server.
func (s *Server) Connect(name, scheduler string) (*grpc.ClientConn, error) {
	l := bufconn.Listen(1 << 20)
	caller := access.Caller{Name: name, Role: access.Scheduler, Scheduler: scheduler}
	go func() { _ = s.grpc.Serve(localListener{l, caller}) }()
	return grpc.NewClient("passthrough:///local", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
}

// localListener accepts connections of a caller within the process.
type localListener struct {
	net.Listener
	caller access.Caller
}

// Accept implements [net.Listener].
func (l localListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return localConn{conn, l.caller}, err
}

type localConn struct {
	net.Conn
	caller access.Caller
}

// localInfo says that the caller is in this process.
type localInfo struct {
	credentials.CommonAuthInfo
	caller access.Caller
}

// AuthType implements [credentials.AuthInfo].
func (localInfo) AuthType() string { return "local" }

// localCredentials shake hands with connections from elsewhere only.
type localCredentials struct {
	credentials.TransportCredentials
}

// ServerHandshake implements [credentials.TransportCredentials].
func (c localCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if l, ok := conn.(localConn); ok {
		level := credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}
		return l.Conn, localInfo{level, l.caller}, nil
	}
	return c.TransportCredentials.ServerHandshake(conn)
}

// Clone implements [credentials.TransportCredentials].
func (c localCredentials) Clone() credentials.TransportCredentials {
	return localCredentials{c.TransportCredentials.Clone()}
}
