package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/internal/certs"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
)

// secured is a service with TLS, client certificates and roles, whose files a test
// may change.
type secured struct {
	*fixture
	ca      *certs.Authority
	address string
	files   access.Files
	clock   atomic.Int64 // ahead of now, in nanoseconds
	mu      sync.Mutex
	logs    bytes.Buffer
}

func (s *secured) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logs.Write(p)
}

func (s *secured) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logs.String()
}

func (s *secured) now() time.Time { return time.Now().Add(time.Duration(s.clock.Load())) }

// testRoles has a caller of every role, by certificate and by token.
func testRoles() string {
	text := "callers:\n"
	for _, c := range []struct{ name, more string }{
		{"viewer", "role: viewer"}, {"operator", "role: operator"}, {"admin", "role: admin"},
		{"prod", "role: scheduler, scheduler: prod"},
	} {
		text += fmt.Sprintf("  - {name: %s, %s, uris: [spiffe://test/%s], token_sha256: [%x]}\n",
			c.name, c.more, c.name, sha256.Sum256([]byte("token-"+c.name)))
	}
	return text
}

// replace writes a file by rename, as rotations of files should.
func (s *secured) replace(path, text string) {
	s.t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		s.t.Fatal(err)
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(x T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
}

func newSecured(t *testing.T) *secured {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t) })
	dir := t.TempDir()
	s := &secured{files: access.Files{Cert: filepath.Join(dir, "server.pem"), Key: filepath.Join(dir, "server.key"),
		ClientCA: filepath.Join(dir, "ca.pem"), Roles: filepath.Join(dir, "roles.yaml")}}
	s.fixture = &fixture{t: t}
	from, until := time.Now().Add(-time.Hour), time.Now().Add(1000*time.Hour)
	s.ca = must[*certs.Authority](t)(certs.NewAuthority("ca", from, until))
	s.rotateServer()
	s.replace(s.files.ClientCA, string(s.ca.Cert))
	s.replace(s.files.Roles, testRoles())
	log := slog.New(access.LogHandler(slog.NewTextHandler(s, nil)))
	source := must[*access.Source](t)(access.Open(s.files,
		access.Options{Every: time.Millisecond, Log: log, Now: s.now}))
	follow, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- source.Run(follow) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	packs := func(_ context.Context, in round.Input) (round.Decision, error) {
		return round.Decision{Config: in.Incumbent.With("pack", space.Bool(true)).With("limit", space.Num(0.5)),
			Adopt: true, Reason: "packed is better", Ratio: 1.5}, nil
	}
	forwarded := strings.HasPrefix(t.Name(), "TestForwarded/")
	s.fixture = serveWith(t, t.TempDir(), controller.Options{Log: log, Decide: packs},
		Options{Builtins: []controller.Builtin{testBuiltin}, Access: source, Log: log, Forwarded: forwarded})
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	s.address = l.Addr().String()
	if forwarded {
		l = s.frontOn(l, source)
	}
	go func() { _ = s.server.Serve(l) }()
	return s
}

func (s *secured) rotateServer() {
	p := must[certs.Pair](s.t)(s.ca.Server([]string{"127.0.0.1"}, time.Now().Add(-time.Hour),
		time.Now().Add(1000*time.Hour)))
	s.replace(s.files.Key, string(p.Key))
	s.replace(s.files.Cert, string(p.Cert))
}

// client issues a certificate that is valid for an hour.
func (s *secured) client(uris ...string) tls.Certificate {
	p := must[certs.Pair](s.t)(s.ca.Client("client", uris, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)))
	return must[tls.Certificate](s.t)(tls.X509KeyPair(p.Cert, p.Key))
}

// dial connects with a client configuration; change may alter it.
func (s *secured) dial(change func(*tls.Config)) *grpc.ClientConn {
	s.t.Helper()
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(s.ca.Cert)
	if change != nil {
		change(config)
	}
	conn := must[*grpc.ClientConn](s.t)(grpc.NewClient(s.address,
		grpc.WithTransportCredentials(credentials.NewTLS(config))))
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// as connects with a certificate of an identity of the roles file.
func (s *secured) as(name string) *grpc.ClientConn {
	s.t.Helper()
	cert := s.client("spiffe://test/" + name)
	return s.dial(func(c *tls.Config) { c.Certificates = []tls.Certificate{cert} })
}

func with(ctx context.Context, token string) context.Context {
	if token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// accessMatrix has the callers of each method: a star for one that may call it. They are a caller without an identity,
// a viewer, an operator, an admin, the scheduler that the request names, and another scheduler.
const accessMatrix = `
method                                                    none viewer operator admin own other
/autosched.v1.TuningService/CreateScheduler                -    -      -        *     *   -
/autosched.v1.TuningService/GetScheduler                   -    *      *        *     *   -
/autosched.v1.TuningService/ListSchedulers                 -    *      *        *     -   -
/autosched.v1.TuningService/UpdateScheduler                -    -      *        *     -   -
/autosched.v1.TuningService/GetSchedulerRevision           -    *      *        *     *   -
/autosched.v1.TuningService/ListSchedulerRevisions         -    *      *        *     *   -
/autosched.v1.TuningService/PauseTuning                    -    -      *        *     -   -
/autosched.v1.TuningService/ResumeTuning                   -    -      *        *     -   -
/autosched.v1.TuningService/DeleteScheduler                -    -      -        *     -   -
/autosched.v1.TuningService/UndeleteScheduler              -    -      -        *     -   -
/autosched.v1.TuningService/FreezeTuning                   -    -      *        *     -   -
/autosched.v1.TuningService/UnfreezeTuning                 -    -      *        *     -   -
/autosched.v1.TuningService/IngestEvents                   -    -      -        *     *   -
/autosched.v1.ConfigurationService/GetCurrentConfiguration -    *      *        *     *   -
/autosched.v1.ConfigurationService/WatchConfigurations     -    *      *        *     *   -
/autosched.v1.ConfigurationService/GetConfiguration        -    *      *        *     *   -
/autosched.v1.ConfigurationService/ListConfigurations      -    *      *        *     *   -
/autosched.v1.ConfigurationService/AcknowledgeConfiguration -   -      *        *     *   -
/autosched.v1.ConfigurationService/ApproveConfiguration    -    -      *        *     -   -
/autosched.v1.ConfigurationService/RollbackConfiguration   -    -      *        *     -   -
/autosched.v1.MaintenanceService/Backup                    -    -      -        *     -   -
/autosched.v1.MaintenanceService/Compact                   -    -      -        *     -   -
/autosched.v1.MaintenanceService/Diagnose                  -    *      *        *     -   -
/autosched.v1.AuditService/ListAuditRecords                -    -      *        *     -   -
/autosched.v1.ExplanationService/ValidateParameters        -    *      *        *     *   -
/autosched.v1.ExplanationService/ExplainConfiguration      -    *      *        *     *   -
/autosched.v1.ExplanationService/WhatIf                    -    *      *        *     *   -
/autosched.v1.ExplanationService/GetCausalModel            -    *      *        *     *   -
/autosched.v1.OperationService/TriggerRound                -    -      *        *     -   -
/autosched.v1.OperationService/GetOperation                -    *      *        *     -   -
/autosched.v1.OperationService/ListOperations              -    *      *        *     -   -
/autosched.v1.OperationService/WaitOperation               -    *      *        *     -   -
/autosched.v1.OperationService/CancelOperation             -    -      *        *     -   -
/autosched.v1.RoundService/GetRound                        -    *      *        *     *   -
/autosched.v1.RoundService/ListRounds                      -    *      *        *     *   -
/autosched.v1.ConfigurationService/PinConfiguration        -    -      *        *     -   -
/autosched.v1.ConfigurationService/ProposeConfiguration    -    -      *        *     -   -
/autosched.v1.ConfigurationService/UnpinConfiguration      -    -      *        *     -   -
/autosched.v1.ConfigurationService/RejectConfiguration     -    -      *        *     -   -
/autosched.v1.ConfigurationService/ParkConfiguration       -    -      *        *     -   -
/autosched.v1.ConfigurationService/UnparkConfiguration     -    -      *        *     -   -
/autosched.v1.ConfigurationService/ListParkedConfigurations -   *      *        *     *   -
/autosched.v1.ConfigurationService/ForgetInstance          -    -      *        *     -   -
/autosched.v1.StudyService/CreateStudy                     -    -      *        *     *   -
/autosched.v1.StudyService/GetStudy                        -    *      *        *     *   -
/autosched.v1.StudyService/ListStudies                     -    *      *        *     *   -
/autosched.v1.StudyService/DeleteStudy                     -    -      *        *     -   -
/autosched.v1.StudyService/PauseStudy                      -    -      *        *     -   -
/autosched.v1.StudyService/ResumeStudy                     -    -      *        *     -   -
/autosched.v1.StudyService/CancelStudy                     -    -      *        *     -   -
/autosched.v1.StudyService/RunStudy                        -    -      *        *     -   -
/autosched.v1.StudyService/ListEvaluators                  -    *      *        *     *   -
/autosched.v1.StudyService/SuggestTrials                   -    -      *        *     *   -
/autosched.v1.StudyService/CreateTrial                     -    -      *        *     *   -
/autosched.v1.StudyService/BatchCreateTrials               -    -      *        *     *   -
/autosched.v1.StudyService/GetTrial                        -    *      *        *     *   -
/autosched.v1.StudyService/ListTrials                      -    *      *        *     *   -
/autosched.v1.StudyService/AddTrialMeasurement             -    -      *        *     *   -
/autosched.v1.StudyService/CompleteTrial                   -    -      *        *     *   -
/autosched.v1.StudyService/StopTrial                       -    -      *        *     *   -
/autosched.v1.StudyService/CheckTrialEarlyStoppingState    -    -      *        *     *   -
/autosched.v1.StudyService/RenewTrialLease                 -    -      *        *     *   -
/autosched.v1.StudyService/ProposeTrial                    -    -      *        *     *   -
/autosched.v1.StudyService/ListOptimalTrials               -    *      *        *     *   -
/autosched.v1.StudyService/EstimateStudy                   -    *      *        *     *   -
/autosched.v1.TelemetryService/IngestTelemetry             -    -      -        *     *   -
/autosched.v1.TelemetryService/ListTelemetry               -    *      *        *     *   -
/autosched.v1.MetricService/ReportMetrics                   -    -      -        *     *   -
/autosched.v1.MetricService/ListMetrics                     -    *      *        *     *   -
/autosched.v1.WorkloadService/GenerateWorkload             -    -      *        *     -   -
/autosched.v1.WorkloadService/UploadWorkload               -    -      *        *     -   -
/autosched.v1.WorkloadService/GetWorkload                  -    *      *        *     *   -
/autosched.v1.WorkloadService/ListWorkloads                -    *      *        *     *   -
/autosched.v1.WorkloadService/DeleteWorkload               -    -      *        *     -   -
/autosched.v1.WorkloadService/DownloadWorkload             -    *      *        *     *   -
/autosched.v1.FindingService/ListFindings                  -    *      *        *     *   -
/autosched.v1.JobService/GetJob                            -    *      *        *     *   -
/autosched.v1.JobService/ExplainJob                        -    *      *        *     *   -
/autosched.v1.JobService/ForecastLoad                      -    *      *        *     *   -
/autosched.v1.JobService/GetEnergy                         -    *      *        *     *   -
/autosched.v1.JobService/GetForecastQuality                -    *      *        *     *   -
/autosched.v1.JobService/GetLoad                           -    *      *        *     *   -
/autosched.v1.JobService/GetTimeline                       -    *      *        *     *   -
/autosched.v1.JobService/GetTuningGain                     -    *      *        *     *   -
/autosched.v1.JobService/ListTenants                       -    *      *        *     *   -
/autosched.v1.JobService/ListJobs                          -    *      *        *     *   -
/autosched.v1.FindingService/GetFinding                    -    *      *        *     *   -
/autosched.v1.FindingService/AcknowledgeFinding            -    -      *        *     -   -
/autosched.v1.FindingService/SnoozeFinding                 -    -      *        *     -   -
/autosched.v1.FindingService/MarkFalsePositive             -    -      *        *     -   -
/grpc.health.v1.Health/Check                               *    *      *        *     *   *
/grpc.health.v1.Health/List                                *    *      *        *     *   *
/grpc.health.v1.Health/Watch                               *    *      *        *     *   *
/grpc.reflection.v1.ServerReflection/ServerReflectionInfo  -    *      *        *     *   *
/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo - *     *        *     *   *
`

// TestAccessMatrix calls every method that the server has as every kind of caller.
func TestAccessMatrix(t *testing.T) {
	s := newSecured(t)
	want := map[string][]string{}
	for _, line := range strings.Split(strings.TrimSpace(accessMatrix), "\n")[1:] {
		fields := strings.Fields(line)
		want[fields[0]] = fields[1:]
	}
	conn := s.dial(nil)
	var methods []string
	for name, service := range s.server.grpc.GetServiceInfo() {
		for _, m := range service.Methods {
			methods = append(methods, "/"+name+"/"+m.Name)
		}
	}
	// Methods of the package that the server does not serve need a row before it does.
	protoregistry.GlobalFiles.RangeFilesByPackage("autosched.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			service := f.Services().Get(i)
			if name := string(service.FullName()); name == pb.SchedulerAgent_ServiceDesc.ServiceName ||
				name == pb.EvaluatorService_ServiceDesc.ServiceName {
				continue // others serve it
			}
			for j := range service.Methods().Len() {
				m := fmt.Sprintf("/%s/%s", service.FullName(), service.Methods().Get(j).Name())
				if !slices.Contains(methods, m) {
					methods = append(methods, m)
				}
			}
		}
		return true
	})
	for method := range methodRules {
		if !slices.Contains(methods, method) {
			t.Errorf("%s has a rule and is no method", method)
		}
	}
	for _, method := range methods {
		if _, ok := methodRules[method]; !ok {
			t.Errorf("%s has no rule in methodRules", method)
		}
		row, ok := want[method]
		if !ok {
			t.Errorf("%s has no row in accessMatrix", method)
			continue
		}
		for i, caller := range []struct{ token, scheduler string }{
			{"", "prod"}, {"token-viewer", "prod"}, {"token-operator", "prod"}, {"token-admin", "prod"},
			{"token-prod", "prod"}, {"token-prod", "other"},
		} {
			code := s.try(conn, method, caller.token, caller.scheduler)
			refused := code == codes.Unauthenticated || code == codes.PermissionDenied
			if refused != (row[i] == "-") || refused && (code == codes.Unauthenticated) != (caller.token == "") {
				t.Errorf("%s by %q about %s: %v, want %s", method, caller.token, caller.scheduler, code, row[i])
			}
		}
	}
}

// try calls a method about a scheduler that does not exist, and returns the code.
func (s *secured) try(conn *grpc.ClientConn, method, token, scheduler string) codes.Code {
	s.t.Helper()
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	d := must[protoreflect.Descriptor](s.t)(
		protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service)))
	m := d.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(name))
	message := func(d protoreflect.MessageDescriptor) proto.Message {
		t := must[protoreflect.MessageType](s.t)(protoregistry.GlobalTypes.FindMessageByName(d.FullName()))
		return t.New().Interface()
	}
	req := message(m.Input())
	for _, field := range []protoreflect.Name{"name", "parent", "scheduler_id"} {
		if f := m.Input().Fields().ByName(field); f != nil {
			text := scheduler
			if field != "scheduler_id" {
				text = convert.SchedulerName(scheduler)
			}
			req.ProtoReflect().Set(f, protoreflect.ValueOfString(text))
		}
	}
	own := methodRules[method].own
	if f := m.Input().Fields().ByName(protoreflect.Name(own)); own != "" && (f == nil ||
		f.Kind() != protoreflect.StringKind) {
		s.t.Errorf("%s: a request has no text %s", method, own)
	}
	ctx, cancel := context.WithCancel(with(background(s.t), token))
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return status.Code(err)
	}
	_ = stream.SendMsg(req)
	_ = stream.CloseSend()
	return status.Code(stream.RecvMsg(message(m.Output())))
}

// TestMethodWithoutRule: a method that is not in the table is refused at run time.
func TestMethodWithoutRule(t *testing.T) {
	s := New(Options{Service: serve(t, nil).server.service})
	called := false
	_, err := s.guard.unary(t.Context(), &pb.GetSchedulerRequest{}, &grpc.UnaryServerInfo{FullMethod: "/a.B/C"},
		func(context.Context, any) (any, error) { called = true; return nil, nil })
	if called || status.Code(rpc.Status(err)) != codes.PermissionDenied {
		t.Errorf("called %v, %v", called, err)
	}
}

// TestClientCertificates: which certificates and protocols identify a caller.
func TestClientCertificates(t *testing.T) {
	s := newSecured(t)
	list := func(conn *grpc.ClientConn, token string) error {
		_, err := pb.NewTuningServiceClient(conn).ListSchedulers(with(background(t), token),
			&pb.ListSchedulersRequest{})
		return err
	}
	cert := func(p certs.Pair, err error) func(*tls.Config) {
		if err != nil {
			t.Fatal(err)
		}
		pair := must[tls.Certificate](t)(tls.X509KeyPair(p.Cert, p.Key))
		// Sent whatever authorities the server asks for.
		return func(c *tls.Config) {
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
	}
	viewer := []string{"spiffe://test/viewer"}
	past, soon := time.Now().Add(-2*time.Hour), time.Now().Add(time.Hour)
	foreign := must[*certs.Authority](t)(certs.NewAuthority("ca", past, soon))
	serverPair := cert(s.ca.Server([]string{"127.0.0.1"}, past, soon))
	for name, c := range map[string]struct {
		change func(*tls.Config)
		token  string
		code   codes.Code
		says   string
	}{
		"valid":         {cert(s.ca.Client("x", viewer, past, soon)), "", codes.OK, ""},
		"token":         {nil, "token-viewer", codes.OK, ""},
		"none":          {nil, "", codes.Unauthenticated, "call with a client certificate or a token"},
		"unknown token": {nil, "token-none", codes.Unauthenticated, "the token is not known"},
		"wrong token counts": {cert(s.ca.Client("x", viewer, past, soon)), "no", codes.Unauthenticated,
			"the token is not"},
		"expired":         {cert(s.ca.Client("x", viewer, past, past.Add(time.Hour))), "", codes.Unavailable, ""},
		"not yet valid":   {cert(s.ca.Client("x", viewer, soon, soon.Add(time.Hour))), "", codes.Unavailable, ""},
		"wrong authority": {cert(foreign.Client("x", viewer, past, soon)), "", codes.Unavailable, ""},
		"of a server":     {serverPair, "", codes.Unavailable, ""},
		"without role": {cert(s.ca.Client("x", []string{"spiffe://test/x"}, past, soon)), "",
			codes.PermissionDenied, "no role"},
		"common name only": {cert(s.ca.Client("viewer", nil, past, soon)), "", codes.Unauthenticated, "0 URIs"},
		"two URIs": {cert(s.ca.Client("x", append(viewer, "spiffe://test/admin"), past, soon)), "",
			codes.Unauthenticated, "2 URIs"},
		"TLS 1.2": {func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 },
			"token-viewer", codes.Unavailable, "protocol version"},
		"untrusted server": {func(c *tls.Config) { c.RootCAs = x509.NewCertPool() }, "token-viewer", codes.Unavailable,
			"certificate"},
	} {
		if err := list(s.dial(c.change), c.token); status.Code(err) != c.code ||
			err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v and %q", name, err, c.code, c.says)
		}
	}
	for _, header := range []string{"token-viewer", "Basic token-viewer", "Bearer "} {
		ctx := metadata.AppendToOutgoingContext(background(t), "authorization", header)
		_, err := pb.NewTuningServiceClient(s.dial(nil)).ListSchedulers(ctx, &pb.ListSchedulersRequest{})
		if status.Code(err) != codes.Unauthenticated {
			t.Errorf("%q: %v", header, err)
		}
	}
}

// hourOfJobs are events after which a round is due.
func hourOfJobs(parent string) *pb.IngestEventsRequest {
	req := &pb.IngestEventsRequest{Parent: parent}
	for i := range 61 {
		at := time.Date(2024, 1, 1, 9, i, 1, 0, time.UTC)
		req.Events = append(req.Events, &pb.Event{EventId: fmt.Sprint("e", i), Kind: pb.Event_SUBMITTED,
			Job: &pb.JobDetails{JobId: fmt.Sprint("j", i), MilliGpus: 1000}, SchedulerTime: timestamppb.New(at)})
	}
	return req
}

// TestSchedulerOfItsOwn: a scheduler's caller reaches its own id alone, also later in
// a stream, and cannot put a proposal into force without approval.
func TestSchedulerOfItsOwn(t *testing.T) {
	s := newSecured(t)
	admin, prod := pb.NewTuningServiceClient(s.as("admin")), s.as("prod")
	tuning, config := pb.NewTuningServiceClient(prod), pb.NewConfigurationServiceClient(prod)
	for _, id := range []string{"prod", "other"} {
		_, err := tuning.CreateScheduler(background(t), request(id, pb.SchedulerSpec_RECOMMEND))
		if want := map[string]codes.Code{"other": codes.PermissionDenied}[id]; status.Code(err) != want {
			t.Errorf("register %s: %v", id, err)
		}
	}
	if _, err := admin.CreateScheduler(background(t), request("other", pb.SchedulerSpec_AUTO)); err != nil {
		t.Fatal(err)
	}
	stream := must[pb.TuningService_IngestEventsClient](t)(tuning.IngestEvents(background(t)))
	send := func(req *pb.IngestEventsRequest) (*pb.IngestEventsResponse, error) {
		_ = stream.Send(req)
		return stream.Recv()
	}
	if _, err := send(hourOfJobs("schedulers/prod")); err != nil {
		t.Fatal(err)
	}
	s.waitRounds("prod", 1)
	const name = "schedulers/prod/configurations/2"
	got, err := send(&pb.IngestEventsRequest{Events: []*pb.Event{{EventId: "applied", Kind: pb.Event_CONFIG_APPLIED,
		ConfigurationRevision: 2, SchedulerTime: timestamppb.New(time.Date(2024, 1, 1, 10, 1, 0, 0, time.UTC))}}})
	if err != nil || len(got.RejectedEvents) != 0 {
		t.Errorf("an event that applies a proposal: %v, %v", got, err)
	}
	applied := &pb.AcknowledgeConfigurationRequest{Name: name,
		Acknowledgement: &pb.Acknowledgement{State: pb.Acknowledgement_APPLIED}}
	ack, err := config.AcknowledgeConfiguration(background(t), applied)
	if err != nil || ack.CurrentConfiguration != "schedulers/prod/configurations/1" ||
		ack.Configuration.State != pb.Configuration_PROPOSED {
		t.Errorf("an acknowledged proposal: %v, %v", ack, err)
	}
	after, err := tuning.GetScheduler(background(t), &pb.GetSchedulerRequest{Name: "schedulers/prod"})
	if err != nil || !strings.Contains(after.GetStatus().GetDegraded(), "revision 2, which was not offered") {
		t.Errorf("after that: %v, %v", after.GetStatus(), err)
	}
	_, err = config.ApproveConfiguration(background(t), &pb.ApproveConfigurationRequest{Name: name})
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("approved by the scheduler: %v", err)
	}
	operator := pb.NewConfigurationServiceClient(s.as("operator"))
	if _, err := operator.ApproveConfiguration(background(t), &pb.ApproveConfigurationRequest{Name: name}); err != nil {
		t.Error(err)
	}
	if _, err := config.AcknowledgeConfiguration(background(t), applied); err != nil {
		t.Error(err)
	}
	if _, err := send(&pb.IngestEventsRequest{Parent: "schedulers/other"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("another scheduler in the stream: %v", err)
	}
	for _, want := range []string{`msg="scheduler registered" scheduler=other type=test mode=auto caller=admin`,
		`msg="configuration approved" scheduler=prod revision=2 applied=false caller=operator`, `msg="call refused"`} {
		if !strings.Contains(s.logged(), want) {
			t.Errorf("no %s in\n%s", want, s.logged())
		}
	}
}

// watching opens a watch and reads its first configuration.
func (s *secured) watching(conn *grpc.ClientConn, token string) pb.ConfigurationService_WatchConfigurationsClient {
	s.t.Helper()
	watch := must[pb.ConfigurationService_WatchConfigurationsClient](s.t)(
		pb.NewConfigurationServiceClient(conn).WatchConfigurations(with(background(s.t), token),
			&pb.WatchConfigurationsRequest{Parent: "schedulers/prod", SendInitialEvents: true}))
	if got, err := watch.Recv(); err != nil || got.GetConfiguration().GetRevision() != 1 {
		s.t.Fatal(got, err)
	}
	if got, err := watch.Recv(); err != nil || got.GetBookmark() == nil {
		s.t.Fatal(got, err)
	}
	return watch
}

func (s *secured) waitLog(n int, text string) {
	s.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); strings.Count(s.logged(), text) < n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("no %d x %s in\n%s", n, text, s.logged())
		}
	}
}

const readAgain = "access files read again"

// TestRotationUnderWatch: the server's certificate rotates; an open watch goes on,
// new connections get the new certificate, bad files change nothing, and a
// removed authority ends the watch.
func TestRotationUnderWatch(t *testing.T) {
	s := newSecured(t)
	admin := s.as("admin")
	if _, err := pb.NewTuningServiceClient(admin).CreateScheduler(background(t),
		request("prod", pb.SchedulerSpec_AUTO)); err != nil {
		t.Fatal(err)
	}
	watch := s.watching(s.as("prod"), "")
	serial := func() string {
		config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: x509.NewCertPool(), NextProtos: []string{"h2"}}
		config.RootCAs.AppendCertsFromPEM(s.ca.Cert)
		conn := must[*tls.Conn](t)(tls.Dial("tcp", s.address, config))
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	before := serial()
	s.rotateServer()
	for deadline := time.Now().Add(2 * time.Minute); serial() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the old certificate is still in use")
		}
	}
	s.waitLog(1, readAgain)
	for _, bad := range []struct{ path, text, says string }{
		{s.files.Roles, "callers: []", "has no callers"}, {s.files.Cert, "none", "server.pem"},
		{s.files.ClientCA, "", "has no certificate"},
	} {
		good := string(must[[]byte](t)(os.ReadFile(bad.path)))
		wrong := strings.Count(s.logged(), "access files are wrong")
		s.replace(bad.path, bad.text)
		s.waitLog(wrong+1, "access files are wrong")
		if !strings.Contains(s.logged(), bad.says) || !s.server.guard.access.Stale() {
			t.Errorf("no %s in\n%s", bad.says, s.logged())
		}
		if serial() == "" {
			t.Error("no certificate")
		}
		n := strings.Count(s.logged(), readAgain)
		s.replace(bad.path, good)
		s.waitLog(n+1, readAgain)
	}
	ingest := must[pb.TuningService_IngestEventsClient](t)(
		pb.NewTuningServiceClient(admin).IngestEvents(background(t)))
	if err := ingest.Send(hourOfJobs("schedulers/prod")); err != nil {
		t.Fatal(err)
	}
	if got, err := watch.Recv(); err != nil || got.GetConfiguration().GetRevision() != 2 {
		t.Errorf("after the rotation, the watch has %v, %v", got, err)
	}
	from, until := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	again := must[*certs.Authority](t)(certs.NewAuthority("next", from, until))
	n := strings.Count(s.logged(), readAgain)
	s.replace(s.files.ClientCA, string(s.ca.Cert)+string(again.Cert)) // both, while clients change over
	s.waitLog(n+1, readAgain)
	if err := watch.Context().Err(); err != nil {
		t.Errorf("with both authorities, the watch ended: %v", err)
	}
	s.replace(s.files.ClientCA, string(again.Cert))
	if _, err := watch.Recv(); status.Code(err) != codes.Unauthenticated ||
		!strings.Contains(err.Error(), "no longer trusted") {
		t.Errorf("after its authority was removed: %v", err)
	}
}

// TestRevocationUnderStream: a revoked token, a changed role and an expired
// certificate end open streams, and no new call is let through.
func TestRevocationUnderStream(t *testing.T) {
	s := newSecured(t)
	if _, err := pb.NewTuningServiceClient(s.as("admin")).CreateScheduler(background(t),
		request("prod", pb.SchedulerSpec_AUTO)); err != nil {
		t.Fatal(err)
	}
	plain := s.dial(nil)
	byToken, other := s.watching(plain, "token-viewer"), s.watching(plain, "token-operator")
	byCert := s.watching(s.as("prod"), "")
	ingest := must[pb.TuningService_IngestEventsClient](t)(
		pb.NewTuningServiceClient(plain).IngestEvents(with(background(t), "token-prod")))
	if err := ingest.Send(&pb.IngestEventsRequest{Parent: "schedulers/prod"}); err != nil {
		t.Fatal(err)
	}
	if _, err := ingest.Recv(); err != nil {
		t.Fatal(err)
	}
	var kept []string
	for line := range strings.Lines(testRoles()) {
		if !strings.Contains(line, "viewer") {
			kept = append(kept, strings.Replace(line, "role: operator", "role: viewer", 1))
		}
	}
	s.replace(s.files.Roles, strings.Join(kept, ""))
	if _, err := byToken.Recv(); status.Code(err) != codes.Unauthenticated ||
		!strings.Contains(err.Error(), "no longer") {
		t.Errorf("revoked: %v", err)
	}
	if _, err := other.Recv(); status.Code(err) != codes.Unauthenticated ||
		!strings.Contains(err.Error(), "the role of operator changed") {
		t.Errorf("with another role: %v", err)
	}
	_, err := pb.NewTuningServiceClient(plain).ListSchedulers(with(background(t), "token-viewer"),
		&pb.ListSchedulersRequest{})
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("a call with the revoked token: %v", err)
	}
	s.clock.Store(int64(2 * time.Hour))
	if _, err := byCert.Recv(); status.Code(err) != codes.Unauthenticated ||
		!strings.Contains(err.Error(), "expired") {
		t.Errorf("expired: %v", err)
	}
	s.replace(s.files.Roles, strings.ReplaceAll(strings.Join(kept, ""), "prod", "gone"))
	if _, err := ingest.Recv(); status.Code(err) != codes.Unauthenticated {
		t.Errorf("events of a revoked token: %v", err)
	}
}

// TestOperationsAccess: metrics ask for a role that reads, probes for none.
func TestOperationsAccess(t *testing.T) {
	s := newSecured(t)
	for _, c := range []struct {
		path, token string
		code        int
	}{
		{"/healthz", "", 200}, {"/readyz", "", 200}, {"/metrics", "", 401}, {"/metrics", "token-none", 401},
		{"/metrics", "token-prod", 403}, {"/metrics", "token-viewer", 200}, {"/metrics", "token-admin", 200},
	} {
		r := httptest.NewRequest(http.MethodGet, c.path, nil)
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		w := httptest.NewRecorder()
		s.server.Web().ServeHTTP(w, r)
		if w.Code != c.code {
			t.Errorf("%s by %q: %d, want %d", c.path, c.token, w.Code, c.code)
		}
		if text := w.Body.String(); c.code == 403 && !strings.Contains(text, "viewer or operator or admin may") {
			t.Errorf("%s by %q: %s", c.path, c.token, text)
		}
	}
}

// TestRolesReference: docs/reference/roles.md has every method with the roles that may call it.
func TestRolesReference(t *testing.T) {
	var rows []string
	for method, r := range methodRules {
		row := fmt.Sprintf("| `%s` |", strings.TrimPrefix(method, "/"))
		for _, role := range allRoles {
			may := ""
			switch {
			case r.open:
				may = "without an identity, too"
			case slices.Contains(r.roles, role):
				may = "yes"
			case r.allows(access.Caller{Role: role, Scheduler: "prod"}, "prod"):
				may = "its own"
			}
			row = strings.TrimSuffix(row+" "+may, " ") + " |"
		}
		rows = append(rows, strings.ReplaceAll(row, "autosched.v1.", "")+"\n")
	}
	slices.Sort(rows)
	want := "# Roles\n\nGenerated from `api/server/access.go` by `go test ./api/server -run TestRolesReference -update`. " +
		"Any other method is\nrefused. Its own: the scheduler that the roles file names for the caller.\n\n" +
		"| method | viewer | scheduler | operator | admin |\n| --- | --- | --- | --- | --- |\n" + strings.Join(rows, "")
	path := filepath.Join("..", "..", "docs", "reference", "roles.md")
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); string(got) != want {
		t.Errorf("%v: docs/reference/roles.md is out of date: "+
			"'go test ./api/server -run TestRolesReference -update' writes it", err)
	}
}
