// Package client connects a scheduler to the service: it sends events until they are
// stored, follows the configuration to run, and acknowledges it. It goes on by itself
// after lost connections, restarts and restores of the service.
//
// A scheduler calls [Client.Register] once, [Client.Run] in a goroutine, and
// [Client.Send] or [Client.Offer] for events; [Client.Report] for measurements
// of itself. [Client.Jobs], [Client.ExplainJob] and the methods beside them read
// its jobs.
package client

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

// ErrRefused is wrapped by errors of Options.Apply about values that the scheduler
// cannot take: the service parks them. After any other error the client applies the
// configuration again later.
var ErrRefused = errors.New("configuration refused")

// Options say which instance of which scheduler a client is.
type Options struct {
	// Conn is the connection to the service. Required.
	Conn grpc.ClientConnInterface
	// Scheduler is the id of the scheduler. Required.
	Scheduler string
	// Instance is the id of this instance; "" for the only one.
	Instance string
	// Apply puts a configuration into force. It returns the values in force where they
	// are known by id; nil means as sent. It is called for one configuration at a time,
	// and not again for the one in force. If nil, no configuration is followed.
	Apply func(ctx context.Context, c *pb.Configuration) (effective map[string]*structpb.Value, err error)
	// Paused is called when an operator paused tuning, and with nil when that is over, if Apply is set and Poll is
	// not. It must not block.
	Paused func(*pb.WatchConfigurationsResponse_Paused)
	// Poll asks for the configuration from time to time, as often as the service says,
	// in place of a watch.
	Poll bool
	// Snapshot returns a SNAPSHOT event of all active jobs. It is sent when the client
	// starts, after Offer dropped events, and after the service lost events in a restore:
	// it makes up for the lost events. Run calls it in a goroutine of its own.
	Snapshot func() *pb.Event
	// Heartbeat is how long nothing is sent before a HEARTBEAT event is; 0 for never.
	Heartbeat time.Duration
	// Now is the scheduler's time; time.Now if nil.
	Now func() time.Time
	// Buffer is how many events are held until they are stored; 100,000 if 0.
	Buffer int
	// Reports is how many reports are held until they are stored; 10,000 if 0.
	Reports int
	// Notify is called with faults, which are tried again: lost connections; events
	// and reports that the service rejected, as *RejectedError and *RejectedReportError;
	// and reports that were dropped, as *DroppedReportsError. It must not block.
	Notify func(error)
	// Random returns numbers from 0 to 1, which spread attempts and tell the events of clients of
	// one instance apart; numbers of math/rand if nil.
	Random func() float64
}

const defaultBuffer = 100_000

// Client is the connection of an instance to the service. Its methods may be called from
// several goroutines.
type Client struct {
	o       Options
	name    string
	tuning  pb.TuningServiceClient
	config  pb.ConfigurationServiceClient
	metrics pb.MetricServiceClient
	jobs    pb.JobServiceClient
	running sync.Mutex   // held by Run
	token   uint32       // in ids of the client's own events
	made    atomic.Int64 // their number

	events
	reports  reports
	revision atomic.Int64      // in force, 0 before one was applied
	inForce  *pb.Configuration // the last one applied
	lost     bool              // it is to be applied again
	paused   bool              // as Options.Paused last received
	reapply  chan struct{}     // says so
}

// New checks the options. It does not connect.
func New(o Options) (*Client, error) {
	switch {
	case o.Conn == nil:
		return nil, errors.New("client: Conn is missing")
	case o.Scheduler == "":
		return nil, errors.New("client: Scheduler is missing: the id of a scheduler")
	case o.Buffer < 0:
		return nil, fmt.Errorf("client: Buffer: %d is negative", o.Buffer)
	case o.Reports < 0:
		return nil, fmt.Errorf("client: Reports: %d is negative", o.Reports)
	case o.Heartbeat < 0:
		return nil, fmt.Errorf("client: Heartbeat: %v is negative", o.Heartbeat)
	}
	o.Buffer, o.Reports = cmp.Or(o.Buffer, defaultBuffer), cmp.Or(o.Reports, defaultReports)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Notify == nil {
		o.Notify = func(error) {}
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	c := &Client{o: o, name: "schedulers/" + o.Scheduler, tuning: pb.NewTuningServiceClient(o.Conn),
		config: pb.NewConfigurationServiceClient(o.Conn), metrics: pb.NewMetricServiceClient(o.Conn),
		jobs: pb.NewJobServiceClient(o.Conn)}
	c.token = uint32(o.Random() * math.MaxUint32)
	c.reapply = make(chan struct{}, 1)
	c.events = events{queue: newQueue[*pb.Event](o.Buffer), gap: o.Snapshot != nil}
	c.reports = reports{queue: newQueue[*pb.MetricReport](o.Reports)}
	return c, nil
}

// Reapply has the configuration in force applied and acknowledged again: the scheduler lost it.
func (c *Client) Reapply() {
	select {
	case c.reapply <- struct{}{}:
	default:
	}
}

// Register creates the scheduler, or returns the one of this id that exists. It waits
// for a service that is away.
func (c *Client) Register(ctx context.Context, s *pb.Scheduler) (registered *pb.Scheduler, created bool, err error) {
	request := crand.Text() // the same in every attempt: the answer to one may have been lost
	err = c.persist(ctx, func() (err error) {
		registered, err = c.tuning.CreateScheduler(ctx,
			&pb.CreateSchedulerRequest{SchedulerId: c.o.Scheduler, Scheduler: s, RequestId: request})
		created = err == nil
		if status.Code(err) == codes.AlreadyExists {
			registered, err = c.tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: c.name})
		}
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("register %s: %w", c.name, err)
	}
	return registered, created, nil
}

// Run sends events and follows the configuration until the context ends, whose error it
// returns, or the service refuses the client for good: the scheduler is unknown or
// deleted, say, or the caller has no role for it. It can be called again; events that
// are not stored are kept.
func (c *Client) Run(ctx context.Context) error {
	if !c.running.TryLock() {
		return errors.New("client: Run is running already")
	}
	defer c.running.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	loops := []func(context.Context) error{c.sendEvents, c.sendReports}
	if c.o.Apply != nil {
		loops = append(loops, c.follow)
	}
	ended := make(chan error, len(loops))
	for _, loop := range loops {
		go func() { ended <- loop(ctx) }()
	}
	err := <-ended
	cancel()
	for range len(loops) - 1 {
		<-ended
	}
	return err
}

// persist repeats a call while it fails for a time.
func (c *Client) persist(ctx context.Context, call func() error) error {
	retry := retrying{random: c.o.Random}
	for {
		err := call()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil || !Transient(err) {
			return err
		}
		if !c.pause(ctx, &retry, err) {
			return ctx.Err()
		}
	}
}

// pause waits after a failure and reports whether the context has not ended.
func (c *Client) pause(ctx context.Context, b *retrying, err error) bool {
	d, news := b.delay(err)
	if news {
		c.o.Notify(err)
	}
	return Sleep(ctx, d)
}

// Reasons of the service's errors, in google.rpc.ErrorInfo.
const (
	reasonEpoch   = "EPOCH_MISMATCH"
	reasonQuota   = "QUOTA_EXCEEDED"
	reasonRefused = "CONFIGURATION_REFUSED"
	reasonResync  = "RESYNC"
)

// Reason is the reason of an error of the service, such as EPOCH_MISMATCH; "" if it has
// none.
func Reason(err error) string {
	info, _ := detail[*errdetails.ErrorInfo](err)
	return info.GetReason()
}

// detail returns the first detail of a type in an error of the service.
func detail[T any](err error) (d T, found bool) {
	for _, x := range status.Convert(err).Details() {
		if d, found = x.(T); found {
			break
		}
	}
	return d, found
}

// epochOf returns the epoch of the store that an EPOCH_MISMATCH names, nil for other errors.
func epochOf(err error) *pb.Epoch {
	info, _ := detail[*errdetails.ErrorInfo](err)
	if info.GetReason() != reasonEpoch {
		return nil
	}
	counter, _ := strconv.ParseInt(info.GetMetadata()["epoch_counter"], 10, 64)
	return &pb.Epoch{Id: info.GetMetadata()["epoch_id"], Counter: counter}
}

// retryDelay is how long the service asks to wait before the call is repeated.
func retryDelay(err error) (time.Duration, bool) {
	info, found := detail[*errdetails.RetryInfo](err)
	return info.GetRetryDelay().AsDuration(), found
}

// Transient reports whether the same call may succeed later.
func Transient(err error) bool {
	switch status.Code(err) {
	// The service cancels calls when it stops; the client's own context is looked at first.
	case codes.Unavailable, codes.DeadlineExceeded, codes.Aborted, codes.Canceled:
		return true
	case codes.ResourceExhausted:
		return !tooLarge(err)
	}
	return false
}

// tooLarge reports whether a request is beyond a limit that waiting does not change.
func tooLarge(err error) bool {
	_, later := retryDelay(err)
	reason := Reason(err)
	return status.Code(err) == codes.ResourceExhausted && !later && (reason == "" || reason == reasonQuota)
}

const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = 10 * time.Second
)

// retrying is the delay between attempts: it doubles up to a bound, and is spread by half.
type retrying struct {
	random func() float64 // from 0 to 1
	failed int            // attempts in a row
	last   string         // error of the last one
}

// delay counts a failed attempt and returns how long to wait. news reports whether it
// failed in another way than the attempt before.
func (r *retrying) delay(err error) (d time.Duration, news bool) {
	news = err.Error() != r.last
	r.last = err.Error()
	d = min(firstDelay<<min(r.failed, 16), maxDelay)
	r.failed++
	d = time.Duration(float64(d) * (1 - r.random()/2))
	if asked, ok := retryDelay(err); ok {
		d += asked
	}
	return d, news
}

// reset forgets failures after a success.
func (r *retrying) reset() { *r = retrying{random: r.random} }

// Sleep waits, and reports whether the context has not ended.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Endpoint is a gRPC server and how to prove who calls it. Its errors begin with the
// name of the field at fault, as YAML and flags have it.
type Endpoint struct {
	// Address is host:port, or a URL of a resolver such as unix:/run/autosched. Several host:port with commas between
	// them are nodes of one service.
	Address string `yaml:"address"`
	// CA is a PEM file of the authority of the server's certificate, or SystemRoots. It
	// encrypts the connection with TLS 1.3; without it the connection is plain.
	CA string `yaml:"tls-ca"`
	// Cert and Key are PEM files of the client certificate and its private key.
	Cert string `yaml:"tls-cert"`
	Key  string `yaml:"tls-key"`
	// TokenFile holds one line, a bearer token. It is not sent unencrypted except to a
	// loopback address.
	TokenFile string `yaml:"token-file"`
	// MaxStaleness lets a node answer reads of configurations, of revisions of schedulers, and of the audit log from
	// its copy of the records: the answer has all that was acknowledged this long before the call. The header
	// autosched-staleness of such an answer says how old it may be. With 0 every answer is the leader's, and so are
	// the configurations that a Client polls: those of copies could go back.
	MaxStaleness time.Duration `yaml:"max-staleness"`
}

// maxStalenessKey is the metadata of calls whose answers may be old.
const maxStalenessKey = "autosched-max-staleness"

// unary says how old the answer to a call may be, unless the call does.
func (e Endpoint) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	if md, _ := metadata.FromOutgoingContext(ctx); len(md.Get(maxStalenessKey)) == 0 {
		ctx = metadata.AppendToOutgoingContext(ctx, maxStalenessKey, e.MaxStaleness.String())
	}
	return invoke(ctx, method, req, reply, conn, options...)
}

// SystemRoots is an Endpoint.CA that stands for the authorities of the system.
const SystemRoots = "system"

// Check returns the fault of the fields. It reads no file.
func (e Endpoint) Check() error {
	all := split(e.Address)
	loopback := true
	for i, address := range all {
		host, _, err := net.SplitHostPort(address)
		if err != nil && (len(all) > 1 || !strings.Contains(address, ":/")) { // as in unix:/run/autosched
			return fmt.Errorf("server: %q is not host:port", address)
		}
		if slices.Contains(all[:i], address) {
			return fmt.Errorf("server: %s is there twice: name each node once", address)
		}
		loopback = loopback && Loopback(host)
	}
	switch {
	case e.MaxStaleness < 0:
		return fmt.Errorf("max-staleness: %v is negative", e.MaxStaleness)
	case (e.Cert == "") != (e.Key == ""):
		return errors.New("tls-cert and tls-key: one is missing")
	case e.Cert != "" && e.CA == "":
		return fmt.Errorf("tls-cert: needs tls-ca, the authority of the server's certificate, or tls-ca %s",
			SystemRoots)
	case e.TokenFile != "" && e.CA == "" && !loopback:
		return fmt.Errorf("token-file: needs tls-ca: a token is not sent unencrypted to %s", e.Address)
	}
	return nil
}

// CheckCalled is Check of an address that the service calls, as its files name it. Only loopback may be called
// unencrypted unless plaintext is allowed.
func (e Endpoint) CheckCalled(allowPlaintext bool) error {
	if err := e.Check(); err != nil {
		return errors.New(strings.Replace(err.Error(), "server:", "address:", 1)) // as it is called there
	}
	for _, address := range split(e.Address) {
		host, _, err := net.SplitHostPort(address)
		if err == nil && e.CA == "" && !allowPlaintext && !Loopback(host) {
			return fmt.Errorf("tls-ca: is missing: %s is not a loopback address, and would be called unencrypted; "+
				"allow-plaintext: true permits that", address)
		}
	}
	return nil
}

// Loopback reports whether a host is this machine.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Dial checks the fields and reads the files. The first call connects. Certificates and
// tokens are read again for every connection and call, so that they can be replaced
// under a running client.
func (e Endpoint) Dial(more ...grpc.DialOption) (*grpc.ClientConn, error) {
	if err := e.Check(); err != nil {
		return nil, err
	}
	transport := insecure.NewCredentials()
	if e.CA != "" {
		config, err := e.TLS()
		if err != nil {
			return nil, err
		}
		transport = credentials.NewTLS(config)
	}
	retry := backoff.DefaultConfig
	retry.MaxDelay = 2 * time.Second
	target, all := e.Address, split(e.Address)
	probe := keepalive.ClientParameters{Time: time.Minute, Timeout: 20 * time.Second}
	if len(all) > 1 { // another one is there
		target, probe = addressesScheme+":///"+all[0], keepalive.ClientParameters{Time: 10 * time.Second,
			Timeout: 5 * time.Second}
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(transport),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry, MinConnectTimeout: 5 * time.Second}),
		// Finds a server that has stopped answering.
		grpc.WithKeepaliveParams(probe)}
	if e.MaxStaleness > 0 {
		options = append(options, grpc.WithChainUnaryInterceptor(e.unary))
	}
	if len(all) > 1 {
		options = append(options, (&addresses{all: all}).options()...)
	}
	if e.TokenFile != "" {
		if _, err := readToken(e.TokenFile); err != nil {
			return nil, err
		}
		options = append(options, grpc.WithPerRPCCredentials(tokenFile{e.TokenFile, e.CA != ""}))
	}
	conn, err := grpc.NewClient(target, append(options, more...)...)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	return conn, nil
}

// TLS is the configuration of an encrypted connection, for other protocols of the server,
// too. The CA must be set.
func (e Endpoint) TLS() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	if e.CA != SystemRoots {
		text, err := os.ReadFile(filepath.Clean(e.CA))
		if err != nil {
			return nil, fmt.Errorf("tls-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("tls-ca: %s has no certificate in PEM", e.CA)
		}
	}
	if e.Cert != "" {
		read := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(e.Cert, e.Key)
			if err != nil {
				return nil, fmt.Errorf("tls-cert and tls-key: %w", err)
			}
			return &pair, nil
		}
		if _, err := read(); err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return read() }
	}
	return config, nil
}

// readToken reads a token, without the blanks around it.
func readToken(path string) (string, error) {
	text, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return "", fmt.Errorf("token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsAny(token, "\r\n") {
		return "", fmt.Errorf("token-file: %s is not one line with a token", path)
	}
	return token, nil
}

// tokenFile sends the token of a file with every call.
type tokenFile struct {
	path      string
	encrypted bool
}

// GetRequestMetadata implements [credentials.PerRPCCredentials].
func (t tokenFile) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := readToken(t.path)
	if err != nil {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity implements [credentials.PerRPCCredentials]. Plain
// connections must be to a loopback address.
func (t tokenFile) RequireTransportSecurity() bool { return t.encrypted }
