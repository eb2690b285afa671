package forward

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/autosched/autosched/api/rest"
	"github.com/autosched/autosched/api/server/rpc"
)

// Leader is a node to forward to.
type Leader struct {
	Address     string
	Certificate []byte
	Process     string // another one has another key
}

// Front accepts calls and passes them on to the leader.
type Front struct {
	identity *Identity
	leader   func() (Leader, bool)
	copy     *Copy // nil for none
	log      *slog.Logger

	mu      sync.Mutex
	current *route // nil before the first

	asking net.Conn // of Place, nil for none
	asked  *route   // that it goes to
}

// NewFront returns a front that asks for the leader at each call. Without a copy, which is nil then, it answers nothing
// itself.
func NewFront(i *Identity, leader func() (Leader, bool), own *Copy, log *slog.Logger) *Front {
	return &Front{identity: i, leader: leader, copy: own, log: log}
}

// route has the connections to a leader.
type route struct {
	leader Leader
	conn   *grpc.ClientConn
	web    *http.Transport
	proxy  *httputil.ReverseProxy
	ended  context.Context // of requests by HTTP
	end    context.CancelFunc
}

func (r *route) close() {
	_ = r.conn.Close() // calls under way fail: they went to a former leader
	r.end()
	r.web.CloseIdleConnections()
}

// route returns the connections to the present leader.
func (f *Front) route() (*route, error) {
	now, ok := f.leader()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != nil && (!ok || f.current.leader.Process != now.Process || f.current.leader.Address != now.Address) {
		f.current.close()
		f.current = nil
	}
	if !ok {
		return nil, rpc.Status(rpc.ErrNoLeader)
	}
	if f.current != nil {
		return f.current, nil
	}
	retry := backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}
	conn, err := grpc.NewClient("passthrough:///"+now.Address,
		grpc.WithTransportCredentials(credentials.NewTLS(f.identity.dial(now.Certificate, protocolRPC))),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry, MinConnectTimeout: 2 * time.Second}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{}), grpc.MaxCallRecvMsgSize(math.MaxInt32),
			grpc.MaxCallSendMsgSize(math.MaxInt32)))
	if err != nil {
		return nil, err
	}
	web := &http.Transport{TLSClientConfig: f.identity.dial(now.Certificate, protocolWeb),
		TLSHandshakeTimeout: 5 * time.Second, DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
		MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute, DisableCompression: true}
	f.current = &route{leader: now, conn: conn, web: web}
	f.current.ended, f.current.end = context.WithCancel(context.Background())
	f.current.proxy = &httputil.ReverseProxy{Transport: web, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "https", now.Address, r.In.Host
			sign(r.Out, r.In)
		},
		ErrorLog: slog.NewLogLogger(f.log.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			f.log.DebugContext(r.Context(), "the leader does not answer", "leader", now.Address, "err", err)
			rest.Error(w, 0, rpc.Status(rpc.ErrLeaderLost))
		}}
	return f.current, nil
}

// Refresh ends the connections to a former leader.
func (f *Front) Refresh() { _, _ = f.route() }

// Close ends the connections to the leader.
func (f *Front) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != nil {
		f.current.close()
		f.current = nil
	}
}

// ServeHTTP implements [http.Handler].
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.webFromCopy(w, r) {
		return
	}
	to, err := f.route()
	if err != nil {
		rest.Error(w, 0, err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(to.ended, cancel)()
	to.proxy.ServeHTTP(w, r.WithContext(ctx))
}

// Options have a gRPC server pass calls on.
func (f *Front) Options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ForceServerCodec(raw{}),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error { return f.pass(stream) })}
}

// raw is the codec of messages that are not read.
type raw struct{}

// frame is an encoded message.
type frame struct{ text []byte }

// Marshal, Unmarshal and Name implement [encoding.Codec].
func (raw) Marshal(v any) ([]byte, error) { return v.(*frame).text, nil }

func (raw) Unmarshal(text []byte, v any) error {
	v.(*frame).text = text
	return nil
}

func (raw) Name() string { return "proto" }

// pass answers the call of a stream from the copy, if the caller allows that, or has the leader answer.
func (f *Front) pass(down grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(down)
	md, _ := metadata.FromIncomingContext(down.Context())
	most, err := bound(md.Get(maxStalenessKey))
	if err != nil {
		return rpc.Describe(err, method, "")
	}
	if f.copy == nil || most == 0 || !f.copy.Has(method) {
		return f.forward(down, method, nil)
	}
	var request frame
	if err := down.RecvMsg(&request); err != nil {
		return err
	}
	done, own := f.fromCopy(down, method, &request, most)
	if done {
		return own
	}
	if err = f.forward(down, method, &request); refused(own, err) {
		return own
	}
	return err
}

// forward makes the call of a stream at the leader. First is a message that was received, nil for none.
func (f *Front) forward(down grpc.ServerStream, method string, first *frame) error {
	to, err := f.route()
	if err != nil {
		return rpc.Describe(err, method, "")
	}
	ctx, cancel := context.WithCancelCause(outgoing(down.Context()))
	defer cancel(nil)
	up, err := to.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return failed(method, err)
	}
	go func() {
		if first != nil && up.SendMsg(first) != nil {
			return
		}
		for {
			var m frame
			err := down.RecvMsg(&m)
			if errors.Is(err, io.EOF) {
				_ = up.CloseSend()
				return
			}
			if err != nil { // the caller is gone, or sent too much
				cancel(err)
				return
			}
			if up.SendMsg(&m) != nil { // the answer says why
				return
			}
		}
	}()
	if header, none := up.Header(); none == nil && len(header) > 0 {
		_ = down.SendHeader(header) // a caller that is gone fails the first message, too
	}
	for {
		var m frame
		err := up.RecvMsg(&m)
		if err == nil {
			if err = down.SendMsg(&m); err != nil {
				return err
			}
			continue
		}
		down.SetTrailer(up.Trailer())
		switch cause := context.Cause(ctx); {
		case errors.Is(err, io.EOF):
			return nil
		case cause != nil && down.Context().Err() == nil:
			return cause
		}
		return failed(method, err)
	}
}

// failed is the error of a call that the leader answered; without an answer, that it is lost.
func failed(method string, err error) error {
	if st := status.Convert(err); st.Code() != codes.Unavailable || len(st.Details()) > 0 {
		return err
	}
	return rpc.Describe(rpc.Status(rpc.ErrLeaderLost), method, "")
}
