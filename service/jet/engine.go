package jet

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/autosched/autosched/api/access"
)

const (
	logStream      = "AS_LOG"
	logPrefix      = "as.log." // of subjects, by scheduler
	leaseBucket    = "AS_LEASE"
	snapshotBucket = "AS_SNAPSHOT"
	clusterName    = "autosched"
	// maxPayload bounds an entry, in bytes.
	maxPayload = 8 << 20
	retryEvery = 250 * time.Millisecond
)

// ErrEngine is the error of an embedded server that has ended its storage, as after a full disk: only a start of the
// process begins it again, and until then the node is no part of a majority.
var ErrEngine = errors.New("the embedded server has ended its storage: see its messages, make room on its disk, " +
	"and start the node again")

// ErrSync is the error of servers that acknowledge before the disk has a message.
var ErrSync = errors.New("the server acknowledges before it syncs: set jetstream.sync_interval to always")

// Engine is a connection to JetStream.
type Engine struct {
	o      *Config
	log    *slog.Logger
	server *server.Server // nil of external ones
	conn   *nats.Conn
	js     jetstream.JetStream
	lease  jetstream.KeyValue

	security *tls.Config // nil where no files are named
	files    sync.WaitGroup
	end      context.CancelFunc // of files
	// reached is called after steps that a process may not outlive, of files and of archives; nil in a program.
	reached func(step string)
}

func (e *Engine) step(name string) {
	if e.reached != nil {
		e.reached(name)
	}
}

// Start starts the embedded server or connects to the external ones, and returns once the streams are there: a
// majority of the servers must run.
func Start(ctx context.Context, c *Config, log *slog.Logger) (*Engine, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	e := &Engine{o: c, log: log}
	if err := e.start(ctx); err != nil {
		e.Close()
		return nil, fmt.Errorf("engine: %w", err)
	}
	return e, nil
}

func (e *Engine) start(ctx context.Context) (err error) {
	if err := e.certificates(); err != nil {
		return err
	}
	if e.o.Embedded != nil {
		err = e.embed()
	} else {
		err = e.await(ctx)
	}
	if err != nil {
		return err
	}
	if e.js, err = jetstream.New(e.conn, jetstream.WithDefaultTimeout(callTimeout)); err != nil {
		return err
	}
	for reported := false; ; reported = true {
		once, cancel := context.WithTimeout(ctx, callTimeout) // a request without a majority gets no answer
		err = e.create(once)
		cancel()
		if err == nil {
			return nil
		}
		if !reported {
			e.log.Info("waiting for a majority of the servers", "err", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no majority of the servers runs: %w", err)
		case <-time.After(retryEvery):
		}
	}
}

// A route without an answer to several pings is closed, and opened again: after a partition the packets of the former
// connection would be repeated seconds late.
const (
	routePing  = time.Second
	routePings = 2
)

// embed starts a server in this process.
func (e *Engine) embed() (err error) {
	o := &server.Options{ServerName: e.o.Node, JetStream: true, StoreDir: e.o.Engine(), SyncAlways: true,
		MaxPayload: maxPayload, NoSigs: true, NoLog: true}
	options := []nats.Option{nats.Name(e.o.Node), nats.MaxReconnects(-1)}
	if e.o.Embedded.Client != "" {
		if o.Host, o.Port, err = split(e.o.Embedded.Client); err != nil {
			return fmt.Errorf("embedded.client: %w", err)
		}
		o.TLSConfig, o.TLS, o.TLSVerify = e.security, e.security != nil, e.security != nil
	} else { // routes begin once there is a listener: this one lets no other in
		token := rand.Text()
		o.Host, o.Port, o.CustomClientAuthentication = "127.0.0.1", server.RANDOM_PORT, ownToken(token)
		options = append(options, nats.Token(token))
	}
	if e.o.Embedded.Cluster != "" {
		o.Cluster.Name, o.Cluster.TLSConfig = clusterName, e.security
		o.Cluster.PingInterval, o.Cluster.MaxPingsOut = routePing, routePings
		if o.Cluster.Host, o.Cluster.Port, err = split(e.o.Embedded.Cluster); err != nil {
			return fmt.Errorf("embedded.cluster: %w", err)
		}
		for _, route := range e.o.Embedded.Routes {
			if _, _, err := split(route); err != nil {
				return fmt.Errorf("embedded.routes: %w", err)
			}
			o.Routes = append(o.Routes, server.RoutesFromStr("nats://"+route)...)
		}
	}
	if err := os.MkdirAll(e.o.Engine(), 0o700); err != nil {
		return err
	}
	if e.server, err = server.NewServer(o); err != nil {
		return err
	}
	e.server.SetLoggerV2(&serverLog{e.log}, false, false, false)
	e.server.Start()
	if !e.server.ReadyForConnections(10 * time.Second) {
		return errors.New("the server does not start: see its messages above")
	}
	if c := e.server.JetStreamConfig(); c == nil || !c.SyncAlways {
		return ErrSync
	}
	options = append(options, nats.InProcessServer(e.server))
	if o.TLS {
		options = append(options, nats.Secure(e.security))
	}
	e.conn, err = nats.Connect("", options...)
	return err
}

// ownToken lets the connection with a token in.
type ownToken string

// Check implements server.Authentication.
func (t ownToken) Check(c server.ClientAuthentication) bool {
	return subtle.ConstantTimeCompare([]byte(c.GetOpts().Token), []byte(t)) == 1
}

// await connects once all servers run that keep the log.
func (e *Engine) await(ctx context.Context) error {
	for reported := false; ; reported = true {
		err := e.connect(ctx)
		if err == nil || errors.Is(err, ErrSync) || errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if !reported {
			e.log.Info("waiting for the servers", "err", err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryEvery):
		}
	}
}

// connect connects to servers that run by themselves, and checks that they sync.
func (e *Engine) connect(ctx context.Context) (err error) {
	options := []nats.Option{nats.Name(e.o.Node), nats.MaxReconnects(-1)}
	if e.security != nil {
		options = append(options, nats.Secure(e.security))
	}
	if err := e.checkSync(ctx, options); err != nil {
		return err
	}
	if e.o.External.Credentials != "" {
		options = append(options, nats.UserCredentials(e.o.External.Credentials))
	}
	e.conn, err = nats.Connect(strings.Join(e.o.External.URLs, ","), options...)
	return err
}

// checkSync asks all servers with JetStream whether they sync.
func (e *Engine) checkSync(ctx context.Context, options []nats.Option) error {
	conn, err := nats.Connect(e.o.External.System, options...)
	if err != nil {
		return fmt.Errorf("system account: %w", err)
	}
	defer conn.Close()
	inbox := conn.NewInbox()
	answers, err := conn.SubscribeSync(inbox)
	if err == nil {
		err = conn.PublishRequest("$SYS.REQ.SERVER.PING.JSZ", inbox, nil)
	}
	if err != nil {
		return fmt.Errorf("system account: %w", err)
	}
	found := 0
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for {
		m, err := answers.NextMsgWithContext(ctx)
		if err != nil {
			break
		}
		var one struct {
			Server struct{ Name string }
			Data   struct {
				Disabled bool
				Config   struct {
					SyncAlways bool `json:"sync_always"`
				}
			}
		}
		if err := json.Unmarshal(m.Data, &one); err != nil {
			return fmt.Errorf("system account: %w", err)
		}
		if one.Data.Disabled {
			continue
		}
		if found++; !one.Data.Config.SyncAlways {
			return fmt.Errorf("server %s: %w", one.Server.Name, ErrSync)
		}
	}
	if found < e.o.Replicas {
		return fmt.Errorf("system account: %d servers with JetStream answer, %d replicas are wanted", found,
			e.o.Replicas)
	}
	return nil
}

// create makes the stream and the buckets, unless they are there.
func (e *Engine) create(ctx context.Context) error {
	if limit := e.conn.MaxPayload(); limit < 1<<20 {
		return fmt.Errorf("the server takes messages of %d bytes: set max_payload to 1 MiB at least, better 8", limit)
	}
	_, err := e.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: logStream,
		Subjects: []string{logPrefix + ">"}, Storage: jetstream.FileStorage, Replicas: e.o.Replicas,
		Discard: jetstream.DiscardNew, DenyDelete: true, Duplicates: duplicates})
	if err == nil {
		e.lease, err = e.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: leaseBucket, History: 1,
			Storage: jetstream.FileStorage, Replicas: e.o.Replicas})
	}
	if err == nil {
		_, err = e.snapshots(ctx)
	}
	return err
}

// Lease is the bucket of leadership.
func (e *Engine) Lease() jetstream.KeyValue { return e.lease }

func (e *Engine) snapshots(ctx context.Context) (jetstream.ObjectStore, error) {
	return e.js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: snapshotBucket,
		Storage: jetstream.FileStorage, Replicas: e.o.Replicas})
}

// gather has the servers' leaders of the log and the lease be that of this node. A server that is cut off and leads
// starts no election when it is back, as others do; and the loss of another node stops no writes, then.
func (e *Engine) gather(ctx context.Context) error {
	if e.server == nil || e.o.Replicas == 1 {
		return nil
	}
	for _, name := range []string{logStream, "KV_" + leaseBucket} {
		stream, err := e.js.Stream(ctx, name)
		if err != nil {
			return err
		}
		group := stream.CachedInfo().Cluster
		if group == nil || group.Leader == "" || group.Leader == e.o.Node || !slices.ContainsFunc(group.Replicas,
			func(p *jetstream.PeerInfo) bool { return p.Name == e.o.Node && p.Current && !p.Offline }) {
			continue
		}
		text, err := json.Marshal(map[string]any{"placement": map[string]string{"preferred": e.o.Node}})
		if err != nil {
			return err
		}
		if _, err := e.conn.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+name, text); err != nil {
			return err
		}
		e.log.Info("the servers' leader moves to this node", "of", name, "from", group.Leader)
	}
	return nil
}

// lost returns ErrEngine once the embedded server stores nothing any more, and nil once the context ends.
func (e *Engine) lost(ctx context.Context) error {
	for {
		if e.server != nil && !e.server.JetStreamEnabled() {
			return ErrEngine
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// JetStream is the connection's.
func (e *Engine) JetStream() jetstream.JetStream { return e.js }

// Conn is the connection.
func (e *Engine) Conn() *nats.Conn { return e.conn }

// Close ends the connection and the embedded server.
func (e *Engine) Close() {
	if e.conn != nil {
		e.conn.Close()
	}
	if e.server != nil {
		e.server.Shutdown()
		e.server.WaitForShutdown()
	}
	if e.end != nil {
		e.end()
		e.files.Wait()
	}
}

// certificates reads the files of TLS, and follows them until the engine is closed.
func (e *Engine) certificates() error {
	if e.o.TLS == nil {
		return nil
	}
	files, err := access.Open(access.Files{Cert: e.o.TLS.Cert, Key: e.o.TLS.Key, ClientCA: e.o.TLS.CA},
		access.Options{Log: e.log})
	if err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	ctx, end := context.WithCancel(context.Background())
	e.security, e.end = files.Peers(), end
	e.files.Go(func() { _ = files.Run(ctx) }) // nil once the context ends
	return nil
}

func split(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	return host, port, err
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// serverLog passes the messages of the embedded server on.
type serverLog struct{ log *slog.Logger }

func (l *serverLog) Noticef(format string, v ...any) {
	l.log.Debug("engine: " + fmt.Sprintf(format, v...))
}
func (l *serverLog) Warnf(format string, v ...any) {
	l.log.Warn("engine: " + fmt.Sprintf(format, v...))
}
func (l *serverLog) Fatalf(format string, v ...any) {
	l.log.Error("engine: " + fmt.Sprintf(format, v...))
}
func (l *serverLog) Errorf(format string, v ...any) {
	l.log.Error("engine: " + fmt.Sprintf(format, v...))
}
func (l *serverLog) Debugf(string, ...any) {}
func (l *serverLog) Tracef(string, ...any) {}
